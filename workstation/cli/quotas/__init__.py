"""What an admin sees of quotas, cohorts and accelerators, and tries with them: `top`, `why`, `cohort`, `quota try`, `usage`.

    the host's API ──> hostview: the same Snapshot as the ledger's ──> pure core `bulkhead.ledger` ──> text or JSON

All of it reads and changes nothing. What tenants wrote is bounded and printed without control characters.
"""
