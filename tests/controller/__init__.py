"""Tests of the controller: pure deciders, golden renderings, handshakes, reconciles on a real API server."""
