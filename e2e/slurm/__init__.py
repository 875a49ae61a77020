"""Slurm tenants as their users see them: what the scenarios, the benchmark and the demo of the Slurm mode share.

clusters    tenants in Slurm mode: create, wait until Ready, run commands as a user on the login node
jobs        submit batch jobs, follow them to a state, read their output
rest        slurmrestd through the plane's API, with a token
faults      which pod to kill, and its processes
"""
