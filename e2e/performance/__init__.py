"""Benchmarks with limits in a reviewed file: how fast a tenant becomes Ready, and what an idle one costs.

provision creates tenants and measures; writes build/results/provision.json memory memory and CPU time of a tenant's processes,
from /proc judgement measured values compared with limits.yaml (pure) report build/results, the printed verdicts, and the exit
status

Most benchmarks share code with what they measure: they create load with the platform's own client, and run its ledger and its
proxy (those of provisioning and of Slurm do not). So they judge only cost and speed, never whether the platform is right. The
scenarios and the chaos experiments judge that, and share nothing with it (the import contracts in pyproject.toml).
"""
