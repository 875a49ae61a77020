"""Bulkhead's own API: names, labels, conditions, and the types of Tenant and TenantClass.

This package sits below everything else and talks to nothing. `names`, `labels` and `conditions` need the standard library
only, because the syncer imports them and must stay small; the pydantic types live in `tenant` and `tenantclass` and are
imported by name where they are needed. Nothing is imported here on purpose.
"""
