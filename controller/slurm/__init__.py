"""The Slurm mode: a Slurm cluster made of ordinary pods inside a tenant's plane.

`spec` is what a tenant gets, resolved from its Tenant and class by `resolve`; `render` and `workers` turn it into objects of
the plane and `config` into Slurm's text files, all of them pure. What talks to slurmrestd and to the plane stands in modules
of its own and is never imported by the builders.
"""
