"""What a hostile tenant tries, as data, at each of the levels that have to stop it.

    cases (YAML) ──┬─> 1 the pure translator                   tests/syncer/translate/test_adversarial.py
                   ├─> 2 two API servers with the syncer       test_mirrored.py
                   ├─> 3 the host's policies alone             test_host_policies.py, by objects of smuggled.py
                   └─> 4 a sample on the embedded host         e2e/scenarios/core

`rows.yaml` has every row and where it is shown, for docs/adversarial.md; `make adversarial` runs levels 1 to 3.
Level 3 proves that the second decider is independent of the first: nothing of the syncer's own checks is in its way.
"""
