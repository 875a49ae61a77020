"""Bulkhead's images for other clusters: built as OCI archives with a list of what is in them, and pushed into a registry.

`catalogue` says which images there are; their content is the embedded host's (`workstation.hostcluster.images`).

    recipes ─> building ─> archives and SBOMs in a folder ─> pushing ─> a registry, and a values file for the chart
"""
