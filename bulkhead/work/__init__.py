"""Asyncio machinery: queue, backoff, supervision, clock. No Kubernetes in here, and no I/O."""
