"""Tests of bulkhead.work: laws by Hypothesis, time by FakeClock."""
