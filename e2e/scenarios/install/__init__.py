"""Installation on a cluster without any part of Bulkhead: the README's commands on three nodes and a registry."""
