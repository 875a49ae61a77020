"""What all of Bulkhead's programs share: API types, Kubernetes client, asyncio machinery, the pure ledger and metering.

Programs of the cluster stand beside it (`controller`, `syncer`, `frontdoor`, `gpumetrics`), and the tools of a
workstation (`workstation`).
"""

__version__ = "0.1.0"
