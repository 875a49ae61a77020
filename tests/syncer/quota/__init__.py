"""Tests of what the syncer does with quota."""
