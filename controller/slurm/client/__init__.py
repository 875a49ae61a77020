"""The client of a tenant's slurmrestd."""
