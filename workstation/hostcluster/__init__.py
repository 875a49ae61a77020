"""The embedded host: a whole cluster on one machine, built from upstream components."""
