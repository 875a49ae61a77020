"""The names under which the plane is reached from outside the host.

Its page: docs/decisions/0035-exposure.md.
"""
