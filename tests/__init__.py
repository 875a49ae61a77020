"""Tests mirror the tree; golden cases are data files next to them."""
