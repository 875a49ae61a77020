"""What the tenant's pods may reach outside their namespace.

Its page: docs/decisions/0025-what-pods-may-reach.md.
"""
