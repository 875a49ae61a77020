"""Nodes that are the tenant's alone."""
