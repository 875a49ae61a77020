"""Tests of names, conditions and the types of our own API."""
