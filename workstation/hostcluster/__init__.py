"""The embedded host: a whole cluster on one machine, made of upstream components."""
