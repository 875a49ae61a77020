"""Tests of what runs while there is Slurm: its answers, the lease, the loop."""
