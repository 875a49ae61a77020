"""Tests of the mirrored kinds other than pods."""
