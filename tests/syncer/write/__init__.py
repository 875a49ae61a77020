"""Tests of the syncer's writes."""
