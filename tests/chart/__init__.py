"""Tests of the charts, among them the admission policies on a real API server."""
