"""End-to-end tests of the Slurm mode on the embedded host: real daemons in real containers, run by `make e2e SUITE=slurm`.

Two Slurm tenants and one Kubernetes tenant run side by side on the same node during the whole run. They need root and the Slurm
images. Artefacts of failures are under build/e2e/.
"""
