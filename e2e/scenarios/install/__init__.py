"""How Bulkhead comes onto a cluster that knows nothing of it: the README's words on three nodes and a registry."""
