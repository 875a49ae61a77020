"""The plane's API server: whether it answers with the data that it had, and what lies inside every plane.

Its page: docs/decisions/0009-plane.md.
"""
