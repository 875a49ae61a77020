"""Tests of the embedded host."""
