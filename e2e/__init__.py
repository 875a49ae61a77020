"""Bulkhead seen from outside: the demo, the scenarios, the chaos experiments and the provisioning benchmark.

Everything here uses what a user has: an admin kubeconfig of the host, a kubeconfig per tenant, `kubectl`, `helm` and the
`bulkhead` command. The judge shares no code with the judged: nothing here imports the controller, the syncer or their
client (names and labels come from `bulkhead.api`, and the paths of binaries from `bulkhead.hostcluster.binaries`).

    api       a small synchronous client for one API server, with watches
    poll      waiting for something, with a deadline and the last thing seen
    commands  running kubectl, helm, ctr and bulkhead
    machine   the embedded host: is it up, where are its files, which processes belong to a pod
    install   images and chart, by helm
    tenants   creating, awaiting and deleting tenants; their kubeconfigs
    workloads plain manifests used by demo, scenarios and chaos alike
"""
