"""Tests of the embedded host's images."""
