"""From a Tenant to the Slurm cluster that is to be built, and from its state to what is reported. Pure."""
