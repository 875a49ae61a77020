"""End-to-end tests of the Slurm mode on the embedded host: real daemons in real containers, run by `make e2e SUITE=slurm`.

Two Slurm tenants and one Kubernetes tenant live side by side on the same node for the whole run. They need root and the Slurm
images; artefacts of failures lie under build/e2e/.
"""
