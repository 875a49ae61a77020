"""The plane's API server: whether it answers with its data, and the objects inside every plane.

Its page: docs/decisions/0009-plane.md.
"""
