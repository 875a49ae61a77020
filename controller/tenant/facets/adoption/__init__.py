"""A new Tenant takes up the retained plane that it names.

Its page: docs/decisions/0051-retained-planes.md.
"""
