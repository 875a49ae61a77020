"""Tests of the syncer: pure parts, and sessions against two real API servers."""
