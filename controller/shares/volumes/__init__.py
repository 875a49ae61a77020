"""Shared volumes: from SharedVolumes of the host to volumes and claims of each tenant, on the host and in its plane.

    SharedVolume, PersistentVolume ──> offers ──> grants of one tenant ──> on_host ──> volume and claim in its work namespace
                                                                              └─ bound ──> in_plane ──> claims in its namespaces

The host's volume points where the SharedVolume says and nowhere else: what lies in the plane is shown to the tenant and never
read for it. Whatever the syncer mirrors names the host's claim by its fixed name.
"""
