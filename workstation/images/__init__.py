"""Bulkhead's images for other clusters: built as OCI archives with a list of their contents, and pushed into a registry.

`catalogue` lists the images; their content comes from the embedded host's recipes (`workstation.hostcluster.images`).

    recipes ─> building ─> archives and SBOMs in a folder ─> pushing ─> a registry, and a values file for the chart
"""
