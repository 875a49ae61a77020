"""Tests of the syncer's watches and caches."""
