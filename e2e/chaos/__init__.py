"""Chaos experiments: one tenant is broken on purpose, and an observer shows what the others notice.

    experiments  what is done, as data            faults    how each fault is made, proved and lifted
    runner       baseline, then one by one        load      the light steady work of every tenant
    observer     a process of its own: probes and watches, writes a history
    history      the records of that history      invariants  pure checks over a history
    report       the table and chaos.json    sightings   whether the observer saw what is judged

A fault that cannot show that it happened fails its experiment (I11).
"""
