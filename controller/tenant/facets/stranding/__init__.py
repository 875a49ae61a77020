"""Members of the plane whose node is gone, and the snapshot from which a plane of one can be restored then.

Its page: docs/decisions/0058-rollouts-and-lost-nodes.md.
"""
