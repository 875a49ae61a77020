"""Which suites a change has to pass, in how much time, and which turns of phrase it may not bring.

Nothing here knows Bulkhead: a suite is a command and its exit status.

    .ci/run ──> gate ──┬── the fixed part, in order                        suites.yaml (catalogue)
                       └── suites that the change touches ── plan ── time    ├── suites: command, minutes, host
                            change (git: base, files) ──┘    record          └── folders: which suites each touches
    make all ──> everything ── all suites, those that passed on this commit left out ── table
    make check ─> catalogue: every folder is in the map; wording ── words: banned turns only become fewer     words.yaml

`flakes` is a plugin of pytest by which a run survives one race: a failed test runs once more, alone. The reasons are in
docs/decisions/0042-the-gate.md, and for the words in docs/style.md.
"""
