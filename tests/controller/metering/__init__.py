"""Tests of the shell of metering: what it watches, what it stores, and when."""
