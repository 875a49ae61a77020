"""Builders of everything that a Slurm cluster is made of inside its plane. Pure."""
