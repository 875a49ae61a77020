"""Benchmarks with limits in a reviewed file: how fast a tenant is Ready, and what an idle one costs.

provision   creates tenants and measures; writes build/results/provision.json
memory      memory and CPU time of a tenant's processes, from /proc
judgement   measured values against limits.yaml (pure)
"""
