"""An upgrade from an older Bulkhead with tenants at work: what restarts, what users notice, and what a removal leaves.

They need root and the history of the repository, and run by `make e2e SUITE=upgrade`.
"""
