"""The demo: from an empty machine to two tenants with GPU work, in steps that say what they do.

steps    one small function per step, over a context
work     the steps inside the tenants
slurm    a tenant in Slurm mode beside them, when asked for
table    what the demo shows at its end (pure)
manifests/  what the tenants apply
"""
