"""Nodes that are dedicated to the tenant.

Its page: docs/decisions/0024-a-class-is-a-bound.md.
"""
