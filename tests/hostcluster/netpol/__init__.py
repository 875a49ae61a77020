"""Tests of the embedded host's netpol."""
