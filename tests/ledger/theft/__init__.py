"""Ways to hold what is another tenant's: each was possible once, or is what users of other schedulers reported."""
