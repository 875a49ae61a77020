"""Chaos experiments: one tenant is broken on purpose, and an observer records what the other tenants notice.

    experiments  the experiments, as data          faults      how each fault is injected, proved and lifted
    population   the tenants of a run              schedule    which experiment when and on which tenant, by a seed
    runner       baseline, then one by one         load        the light steady work of every tenant
    observer, prober   processes of their own: watch and probe, write histories (recorder; uses, devices)
    quiet        whether anything still writes     scan, canary  the last look: host objects, and secrets that leaked
    history      the records                       sightings   whether the observer saw what is judged
    invariants   pure checks over a history        measures    figures of one experiment
    judgement    the verdict on a history (rows)   report      as text, chaos.json and JUnit
    page         the report as HTML and SVG        results     what a run leaves behind (kept)

An experiment fails if its fault cannot show that it happened (I11).
"""
