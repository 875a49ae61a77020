"""The tenant's Slurm cluster.

Its page: docs/decisions/0014-slurm-mode.md.
"""
