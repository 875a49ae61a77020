"""Takes snapshots of planes: a task for each TenantSnapshot that is not finished.

    spec, status   pure: what to take, and what is reported
    take           one attempt: etcd ──> age ──> target, then the keys, then the signed manifest
    loop           the tasks: a few at once, tried again, ended when the lease is lost

Its page: docs/decisions/0047-snapshots-of-planes.md.
"""
