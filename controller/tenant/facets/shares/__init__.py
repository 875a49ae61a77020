"""What the host shares with the tenant.

Its page: docs/decisions/0038-what-the-host-shares.md.
"""
