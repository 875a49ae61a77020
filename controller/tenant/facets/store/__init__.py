"""The plane's store: how full etcd is.

Its page: docs/decisions/0009-plane.md.
"""
