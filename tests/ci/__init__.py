"""Which suites a change has to pass, and what is forgiven of a run."""
