"""Decides which workloads may use which accelerators now: the pure core of the ledger, for the controller and the command line.

    host objects ──> read ──> Snapshot ──> decide ──> Decisions ──> the controller's shell writes them
                                 │            │
                                 │            ├─ account   what each tenant holds, may borrow, has lent
                                 │            ├─ place     which node each pod of a gang would get
                                 │            ├─ order     which workload is next
                                 │            ├─ reclaim   which borrowed accelerators go back
                                 │            └─ verdict   why a pod waits, with numbers
                                 └─ everything comes from the host's API; nothing is remembered

Pure: no network, clock, randomness or logging. Time is passed in, as seconds since 1970. It trusts
nothing that a tenant wrote, except where a field of `model` says so. The reasons are in docs/decisions/0040-ledger.md.
"""
