"""The members of a plane of three: which may start, and how one that lost its volume is replaced.

Its page: docs/decisions/0049-care-of-etcd.md.
"""
