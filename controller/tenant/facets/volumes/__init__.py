"""The volumes under the plane's etcd, which grow while it runs.

Its page: docs/decisions/0009-plane.md.
"""
