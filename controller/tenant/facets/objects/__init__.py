"""All host objects of a tenant: those that it does not run without, those that follow, and those that it runs without.

Its page: docs/decisions/0009-plane.md.
"""
