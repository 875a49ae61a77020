"""Bulkhead seen from outside: the demo, the scenarios, the chaos experiments and the provisioning benchmark.

Everything here uses what a user has: an admin kubeconfig of the host, a kubeconfig per tenant, `kubectl`, `helm` and the
`bulkhead` command. The judge shares no code with the judged: nothing here but the benchmarks imports the platform, its types or
its client, and of the embedded host only what the test machine itself is (a contract in pyproject.toml says what, and why). The
benchmarks in `performance` share code with what they measure, and say so.

    api       a small synchronous client for one API server, with watches
    names     what the platform promises to call things, written down a second time
    ledger    what the ledger says on pods and quotas, read a second time
    poll      waiting for something, with a deadline and the last thing seen
    commands  running kubectl, helm, ctr and bulkhead
    machine   the embedded host: is it up, where are its files, which processes belong to a pod
    install   images and chart, by helm
    tenants   creating, awaiting and deleting tenants; their kubeconfigs
    workloads plain manifests used by demo, scenarios and chaos alike
"""
