"""Tests of the certificates of planes."""
