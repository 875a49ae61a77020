"""By what names the plane is reached from outside of the host.

Its page: docs/decisions/0035-exposure.md.
"""
