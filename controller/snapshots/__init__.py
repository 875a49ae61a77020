"""Takes snapshots of planes: a task for each TenantSnapshot that is not finished.

    spec, status   pure: what to take, and what is reported
    take           one attempt: etcd ──> age ──> target, then the keys, then the signed manifest
    reports        what is written of it: over what was looked at, and its end until the host takes it
    loop           the tasks: a few at once, tried again, ended when the lease is lost
    schedule       pure: when a scheduled one is due, and what it is called
    thinning       pure: which scheduled ones go
    removal        deletes what is stored of a scheduled one whose object is deleted

Its page: docs/decisions/0047-snapshots-of-planes.md.
"""
