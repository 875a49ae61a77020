"""The shell of the ledger: watches the host, has `bulkhead.ledger` decide, writes what was decided; only while leading.

    informers ──> observe: decoded once for each change ──> Snapshot ──> decide, in a thread ──> apply ──> the host's API
                     ^                                                                             │
                     └──── own writes, until the informers show them; what may have been written is read again

Nothing is remembered that the host's API does not have, but the nodes that failed and how often a write is repeated. So a
controller may die after each single write, and the next one goes on from what it finds.
"""
