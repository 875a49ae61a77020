"""The upstream end-to-end suite against the embedded host and inside a tenant."""
