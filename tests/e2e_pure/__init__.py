"""Tests of the pure parts of e2e: checkers, percentiles, reports."""
