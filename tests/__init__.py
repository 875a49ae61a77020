"""Tests mirror the tree; golden cases are data beside them."""
