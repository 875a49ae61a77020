"""Builds all objects of a Slurm cluster inside its plane. Pure."""
