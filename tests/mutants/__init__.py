"""The proof that the tests hold the rules: each rule is taken out of the code, one at a time, and a test has to turn red.

    python -m tests.mutants                    all of them, in an hour on two cores; goes on where the last run ended
    python -m tests.mutants --area policies    a part
    python -m tests.mutants --since FILE       and every mutant that was red there must be red now

    data/<area>.yaml ──> catalogue ──> trial: a copy of the tree, one mutant, its suite ──> record ──> table
    simulation/seeded/*.patch ──┘                                                     build/results/mutants.json

A mutant is data: the rule as a sentence, a file, a text that occurs there once, its replacement, and the tests that should
notice it. `tests/mutants/test_catalogue.py` fails once a text is no longer there: write the mutant again for the present code.
A suite that is red without any mutant proves nothing, so each suite first runs on the tree as it is.

Nothing here changes the tree: a trial works on a copy.
"""
