"""The keys and certificates of a plane, and that its API server presents the current one.

Its page: docs/decisions/0010-pki.md.
"""
