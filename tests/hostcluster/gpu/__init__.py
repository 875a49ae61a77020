"""Tests of the embedded host's gpu."""
