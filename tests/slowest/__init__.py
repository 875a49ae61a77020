"""What the last run of tests spent its time on: `make slowest`.

    pytest ── record (a plugin, in each process) ──> build/results/tests/<process>.jsonl ── table ──> what is printed

Seconds are told apart: what the test's own process computed, what the processes computed that it started (commands, API
servers), and the rest, in which the test waited. The process that hands out the tests watches how much memory all of them hold
(`memory`). It never changes what a test does, and no test depends on it.
"""
