"""Which suites a change has to pass, and in how much time.

Nothing here knows Bulkhead: a suite is a command and its exit status.

    .ci/run ──> gate ──┬── the fixed part, in order                        suites.yaml (catalogue)
                       └── suites that the change touches ── plan ── time    ├── suites: command, minutes, host
                            change (git: base, files) ──┘    record          └── folders: which suites each touches
    make all ──> everything ── all suites, those that passed on this commit left out ── table

`flakes` is the plugin of pytest by which a run survives one race: what fails runs once more, alone. Why all of it is so:
docs/decisions/0042-the-gate.md.
"""
