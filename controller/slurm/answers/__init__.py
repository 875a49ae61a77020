"""Reads the answers of slurmrestd and the plane about a Slurm cluster, as frozen values. Pure; the input is hostile."""
