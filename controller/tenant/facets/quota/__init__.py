"""What the host counts of a tenant, and up to where.

Its page: docs/decisions/0022-quotas.md.
"""
