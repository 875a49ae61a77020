"""Decides, from a Tenant, which Slurm cluster to build, and from the cluster's state, what to report. Pure."""
