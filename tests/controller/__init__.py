"""Tests of the controller: pure state-in state-out, golden renderings, certificates by handshake, passes on a real API server."""
