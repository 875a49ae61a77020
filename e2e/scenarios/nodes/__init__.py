"""Several real nodes on one machine: one cluster across them, the loss of one of them, and a removal without traces."""
