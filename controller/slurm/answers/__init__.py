"""What slurmrestd and the plane answer about a Slurm cluster, read from hostile input into frozen values. Pure."""
