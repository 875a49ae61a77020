"""Benchmarks with limits in a reviewed file: how fast a tenant is Ready, and what an idle one costs.

provision   creates tenants and measures; writes build/results/provision.json
memory      memory and CPU time of a tenant's processes, from /proc
judgement   measured values against limits.yaml (pure)
report      build/results, the printed verdicts, and the exit status

Most benchmarks share code with what they measure: they load it by the platform's own client, and run its ledger and its proxy
(those of provisioning and of Slurm do not). So they judge cost and speed alone, never whether the platform is right: that is
for the scenarios and the chaos experiments, which share nothing with it (the import contracts in pyproject.toml).
"""
