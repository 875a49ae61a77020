"""Tests of the embedded host's storage."""
