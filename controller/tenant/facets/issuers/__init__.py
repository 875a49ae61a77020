"""The identity providers whose tokens the tenant's users sign in with.

Its page: docs/decisions/0036-identity-providers.md.
"""
