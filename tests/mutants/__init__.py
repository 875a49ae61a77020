"""The proof that the tests hold the rules: each rule is taken out of the code, one at a time, and a test has to turn red.

    python -m tests.mutants                    all of them, in an hour on two cores; goes on where the last run ended
    python -m tests.mutants --area policies    a part
    python -m tests.mutants --since FILE       and whatever was red there must be red now

    data/<area>.yaml ──> catalogue ──> trial: a copy of the tree, one mutant, its suite ──> record ──> table
    simulation/seeded/*.patch ──┘                                                     build/results/mutants.json

A mutant is data: the rule in a sentence, a file, a text that stands there once, what takes its place, and the tests that
should see it. `tests/mutants/test_catalogue.py` fails once a text is not there any more: remake the mutant for the present
code. A suite that is red without any mutant kills none, so each is run as it is first.

Nothing here changes the tree: a trial works on a copy.
"""
