"""GPU metrics for tenants: one scrape of each node's exporter for all of them, and each tenant's own samples to its syncer.

    exporters (EndpointSlices) ──scrape──> pages ──┐
    host's pods, nodes ──watch─────────────────────┴─attribute──> samples by tenant ──> its syncer, by a token of the host

It is a program of its own: optional, with few rights, and apart from the controller, since it reads what exporters write.
"""
