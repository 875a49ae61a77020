"""For how long tenants hold devices, and how that is stored: the core of metering, for the controller and the command line.

    host pods, claims ──> held, claimed ──> Meter ────────┬─> Tally ──> usagebook: sums by the hour ──> `bulkhead usage`
    what the ledger reserves ─────────────> ReservedMeter ┘

It meters every tenant, with or without a cohort, and works where no ledger runs. With the ledger (`bulkhead.ledger`) it shares
two types, `Line` and `ReservedRoom` (`bulkhead.api.quotalines`), and imports nothing of it. Pure: time is passed in, as whole
milliseconds since 1970. The reasons stand in docs/decisions/0041-metering.md.
"""
