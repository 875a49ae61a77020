"""Asyncio machinery: queue, backoff, breaker, supervision, clock. No Kubernetes in here, and no I/O."""
