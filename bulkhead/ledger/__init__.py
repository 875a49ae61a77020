"""Who may use which accelerators now: the core of the ledger, for the controller, which acts on it, and the command line.

    host objects ──> read ──> Snapshot ──> decide ──> Decisions ──> the controller's shell writes them
                                 │            │
                                 │            ├─ account   what each tenant holds, may borrow, has lent
                                 │            ├─ place     which node each pod of a gang would get
                                 │            ├─ order     who is next
                                 │            ├─ reclaim   whose borrowed accelerators go back
                                 │            └─ verdict   why a pod waits, with numbers
                                 └─ everything comes from the host's API; nothing is remembered

Pure: no network, clock, randomness or logging. Time is passed in, as seconds since 1970. It never trusts what a tenant wrote
beyond what is said at each field of `model`. Why it is so: docs/decisions/0040-ledger.md.
"""
