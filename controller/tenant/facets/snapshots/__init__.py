"""Snapshots of the plane that admins ask for.

Its page: docs/decisions/0047-snapshots-of-planes.md.
"""
