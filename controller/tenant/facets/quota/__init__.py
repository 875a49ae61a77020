"""What the host counts for a tenant, and the limits.

Its page: docs/decisions/0022-quotas.md.
"""
