"""Scheduled snapshots of the plane: asked for when they are due, thinned out, and missed when they are overdue.

Its page: docs/decisions/0047-snapshots-of-planes.md.
"""
