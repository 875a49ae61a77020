"""Dynamic resource allocation in a tenant, with the upstream test driver on the embedded host."""
