"""Tests of the controller: pure deciders, golden renderings, handshakes, passes on a real API server."""
