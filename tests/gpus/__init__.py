"""Tests of GPU metrics."""
