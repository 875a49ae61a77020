"""Nodes that are the tenant's alone.

Its page: docs/decisions/0024-a-class-is-a-bound.md.
"""
