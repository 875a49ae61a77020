"""Computes how long tenants hold devices, and how that is stored: the core of metering, for controller and command line.

    host pods, claims ──> held, claimed ──> Meter ────────┬─> Tally ──> usagebook: sums by the hour ──> `bulkhead usage`
    what the ledger reserves ─────────────> ReservedMeter ┘

It meters every tenant, with or without a cohort, and works if no ledger runs. It shares two types with the ledger
(`bulkhead.ledger`), `Line` and `ReservedRoom` of `bulkhead.api.quotalines`, and imports nothing else of it. Pure: time is
passed in, as whole milliseconds since 1970. The reasons are in docs/decisions/0041-metering.md.
"""
