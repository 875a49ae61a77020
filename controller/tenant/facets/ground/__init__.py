"""The ground of a tenant: its two namespaces, the rights in them, and the record of the accepted spec.

Its page: docs/decisions/0027-what-the-controller-may-read-and-write.md.
"""
