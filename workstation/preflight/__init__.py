"""`bulkhead preflight`: may Bulkhead be installed on this cluster, and what would not hold there.

    values     what the admin would install (the chart's values)
    observe    reads the cluster, each list bounded, what cannot be read with its reason ──┐
    probes/    short-lived pods in a namespace of their own, removed whatever happens ─────┴──> facts.Observed (frozen)
    judge/     facts + values ──> one finding for each check, each with cause and cure (pure)
    findings   what a check says, and the report's shape (pure)
    run        all of it within one minute

It makes nothing outside of its namespace, and removes what an earlier run left. It judges what it saw and never repairs.
"""
