"""The two namespaces, the rights in them, and the note of what was accepted: what everything else of a tenant lies in.

Its page: docs/decisions/0027-what-the-controller-may-read-and-write.md.
"""
