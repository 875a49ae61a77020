"""Virtual objects to host objects and back, one process per tenant."""
