"""Tests of preflight that need no cluster."""
