"""The tenant's Slurm cluster."""
