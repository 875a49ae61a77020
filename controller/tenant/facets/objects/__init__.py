"""All host objects of a tenant: those that it needs, those that follow the plane, and those that it runs without.

Its page: docs/decisions/0009-plane.md.
"""
