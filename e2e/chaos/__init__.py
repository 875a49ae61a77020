"""Chaos experiments: one tenant is broken on purpose, and an observer records what the other tenants notice.

    experiments  the experiments, as data         faults    how each fault is injected, proved and lifted
    runner       baseline, then one by one        load      the light steady work of every tenant
    observer     a process of its own: probes and watches, writes a history
    history      the records of that history      invariants  pure checks over a history
    report       the table and chaos.json    sightings   whether the observer saw what is judged

An experiment fails if its fault cannot show that it happened (I11).
"""
