"""The names that Bulkhead promises, written down a second time from docs/contracts.md and independent of the platform. Pure.

Changing a name only in the platform would break its users. The tests notice it, because this copy does not change with it.
"""

API_VERSION = "bulkhead.dev/v1alpha1"
SYSTEM_NAMESPACE = "bulkhead-system"
SLURM_NAMESPACE = "slurm"
POD_QUOTA = "tenant-quota"
PULL_SECRET = "bulkhead-pull"
GPU = "nvidia.com/gpu"

# Labels and annotations.
COMPONENT = "bulkhead.dev/component"
TENANT = "bulkhead.dev/tenant"  # also of its pods on the host, and of the taint of its own nodes
RELEASE = "bulkhead.dev/release"
VIRTUAL_UID = "bulkhead.dev/virtual-uid"
MIRRORED = "bulkhead.dev/managed-by=syncer"  # selects the syncers' host objects


def plane_namespace(tenant: str) -> str:
    """The host namespace of a tenant's plane."""
    return f"bh-{tenant}"


def work_namespace(tenant: str) -> str:
    """The host namespace of the host objects of a tenant."""
    return f"bh-{tenant}-work"


def host_user(requester: str) -> str:
    """A host user's name in planes; the short names that are used here fit into a certificate."""
    return f"bulkhead:host:{requester}"
