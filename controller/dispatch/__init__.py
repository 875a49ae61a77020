"""The shell of the ledger: while its process leads, it watches the host, decides with `bulkhead.ledger`, and writes decisions.

    informers ──> observe: decoded once for each change ──> Snapshot ──> decide, in a thread ──> apply ──> the host's API
                     ^                                                                             │
                     └──── own writes, until the informers show them; after an unanswered write the pod is read again

It remembers nothing that the host's API does not have, except for nodes that failed, moves, the age of reservations, and
waiting times between writes. So a controller may die after any write, and the next one continues from the host's objects.
"""
