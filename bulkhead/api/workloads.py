"""What is admitted, moved and taken back in one piece: a gang with all of its pods, or a pod by itself. Pure."""

from typing import NamedTuple


class WorkloadKey(NamedTuple):
    """Tells one workload from all others. Either `gang` or `pod` is empty."""

    # "" where all are of one tenant.
    tenant: str
    # The virtual namespace: the scope of the gang's name.
    namespace: str
    gang: str
    pod: str


def workload_key(tenant: str, namespace: str, *, gang: str | None, pod: str) -> WorkloadKey:
    """The workload of a pod: `gang` is the name of its gang, or None; `pod` tells the pod from all others of the namespace."""
    return WorkloadKey(tenant, namespace, "", pod) if gang is None else WorkloadKey(tenant, namespace, gang, "")
