"""Shared volumes: from SharedVolumes of the host to volumes and claims of each tenant, on the host and in its plane.

    SharedVolume, PersistentVolume ──> offers ──> grants of one tenant ──> on_host ──> volume and claim in its work namespace
                                                                              └─ bound ──> in_plane ──> claims in its namespaces

The host's volume points only to the source of the SharedVolume. The objects in the plane are for the tenant to see, and are
never read for the host's volume. Pods that the syncer mirrors name the host's claim by its fixed name.
"""
