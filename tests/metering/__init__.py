"""Tests of the pure core of metering."""
