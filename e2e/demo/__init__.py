"""The demo: from an empty machine to two tenants with GPU work. Each step says what it does.

steps one small function for each step, over a context work the steps inside the tenants slurm a third tenant in Slurm mode, on
request table what the demo prints at its end (pure) manifests/ the objects that the tenants apply
"""
