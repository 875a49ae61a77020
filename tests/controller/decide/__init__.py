"""Tests of what the controller decides: pure, without an API server."""
