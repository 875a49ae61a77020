"""Tests of Bulkhead from the outside: the demo, the scenarios, the chaos experiments and the benchmarks.

Everything here uses what a user has: an admin kubeconfig of the host, one kubeconfig for each tenant, `kubectl`, `helm` and the
`bulkhead` command. These tests share no code with the platform: only the benchmarks import it, its types or its client. Of the
embedded host they import only what describes the test machine. A contract in pyproject.toml lists both, with reasons. The
benchmarks in `performance` share code with what they measure, and say so.

    api       a small synchronous client for one API server, with watches
    names     the names that the platform promises, written down a second time
    ledger    reads the ledger's annotations on pods and quotas, with code of its own
    poll      waits for something, with a deadline, and reports what was seen last
    commands  runs kubectl, helm, ctr and bulkhead
    machine   the embedded host: is it up, where are its files, which processes belong to a pod
    install   images and chart, by helm
    tenants   creates, awaits and deletes tenants; fetches their kubeconfigs
    workloads plain manifests that demo, scenarios and chaos share
"""
