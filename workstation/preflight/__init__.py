"""`bulkhead preflight`: can Bulkhead be installed on this cluster, and what would not work there.

    values     what the admin would install (the chart's values)
    observe    reads the cluster; each list is bounded, and a failed read keeps its reason ─┐
    probes/    short-lived pods in a namespace of their own, always removed at the end ─────┴──> facts.Observed (frozen)
    judge/     facts + values ──> one finding for each check, with cause and cure (pure)
    findings   the result of a check, and the shape of the report (pure)
    run        all of it within one minute

It creates objects only in its own namespace, and removes what an earlier run left. It reports problems and never repairs them.
"""
