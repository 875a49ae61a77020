"""Tests of what a tenant consists of, a folder each."""
