"""Commands for admins about quotas, cohorts and accelerators: `top`, `why`, `cohort`, `quota try`, `usage`.

    the host's API ──> hostview: the same Snapshot as the ledger's ──> pure core `bulkhead.ledger` ──> text or JSON

All of them only read. Text that tenants wrote is bounded and printed without control characters.
"""
