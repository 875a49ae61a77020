"""Several real nodes on one machine: one cluster across them, one of them lost, and nothing left of any."""
