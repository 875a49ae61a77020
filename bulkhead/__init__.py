"""What controller and syncer share: API types, Kubernetes client, asyncio machinery; and the command line and embedded host."""

__version__ = "0.1.0"
