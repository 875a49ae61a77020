"""What both halves of Bulkhead share: API types, the Kubernetes client, asyncio machinery, the command line, the embedded host."""

__version__ = "0.1.0"
