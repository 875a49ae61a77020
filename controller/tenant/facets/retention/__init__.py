"""How the Tenant will be deleted: reported while it lives, because its class may be gone when it is deleted.

Its page: docs/decisions/0051-retained-planes.md.
"""
