"""The proxy in front of tenants' API servers."""
