"""A snapshot takes the place of the plane's data: asked for by a TenantRestore, step by step, while the tenant's pods run on.

Its page: docs/decisions/0050-restore.md.
"""
