"""Tests of restores: the next step, keys, and what is compared."""
