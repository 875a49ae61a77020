"""What slurmrestd and the plane say of a Slurm cluster, as frozen values: hostile input until it is one. Pure."""
