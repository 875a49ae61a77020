"""Tests of one facet of a tenant."""
