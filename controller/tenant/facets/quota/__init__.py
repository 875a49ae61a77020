"""What the host counts of a tenant, and up to where."""
