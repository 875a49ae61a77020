"""`bulkhead chaos`: breaks one tenant of a cluster on purpose, and measures the others and the host while it is broken.

    plan ──> record, lease ──> tenants of its own ──> baseline ──> each fault: inject, prove, lift, recover ──> judge ──> report
                 └── at every end, and by `chaos stop` or the next run after a death: undo what the record names

    experiments  what there is: names, hypotheses, bounds (pure)
    plan         what a run would do, or why it is refused (pure)
    objects      manifests (pure)
    record       what a run may have left, as text in a ConfigMap (pure)
    judge        from measurements to violations (pure)
    report       the result as data, JUnit and text (pure)
    observe      reads the host: classes, tenants, pods of planes
    journal      the record and the lease of a run on the host
    undo         deletes what a record names
    prober       a process of its own that reads and writes each API at a steady rate
    measure      starts the prober and keeps its samples
    faults/      the faults, a class each
    run, stop    the two ways in

It works with the rights of an admin's kubeconfig, by the APIs of the host and of planes alone, and knows nothing of nodes.
"""
