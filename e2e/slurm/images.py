"""The Slurm images on the embedded host, built and imported when they are first wanted."""
