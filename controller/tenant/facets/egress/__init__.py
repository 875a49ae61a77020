"""Where the tenant's pods may go outside of it.

Its page: docs/decisions/0025-what-pods-may-reach.md.
"""
