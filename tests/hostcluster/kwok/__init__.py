"""Tests of the embedded host's kwok."""
