"""What Bulkhead promises to call things, written down a second time from docs/contracts.md: the judge's own copy. Pure.

A name that changes in the platform alone breaks whoever relied on it, and is found here because the two are not one.
"""

API_VERSION = "bulkhead.dev/v1alpha1"
SYSTEM_NAMESPACE = "bulkhead-system"
SLURM_NAMESPACE = "slurm"
POD_QUOTA = "tenant-quota"
PULL_SECRET = "bulkhead-pull"
GPU = "nvidia.com/gpu"

# Labels and annotations.
COMPONENT = "bulkhead.dev/component"
RELEASE = "bulkhead.dev/release"
VIRTUAL_UID = "bulkhead.dev/virtual-uid"
MIRRORED = "bulkhead.dev/managed-by=syncer"  # selects what syncers have made


def plane_namespace(tenant: str) -> str:
    """The host namespace of a tenant's plane."""
    return f"bh-{tenant}"


def work_namespace(tenant: str) -> str:
    """The host namespace of what a tenant runs."""
    return f"bh-{tenant}-work"


def host_user(requester: str) -> str:
    """What a user of the host is called in planes; the short names that are used here fit a certificate."""
    return f"bulkhead:host:{requester}"
