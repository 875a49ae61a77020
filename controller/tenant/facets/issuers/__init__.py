"""The identity providers by whose tokens the tenant's users sign in.

Its page: docs/decisions/0036-identity-providers.md.
"""
