"""The builders of the Slurm mode: golden files, laws of the text files, and what a Tenant becomes."""
