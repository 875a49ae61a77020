"""What the host lets the tenant use in its work namespace: the hard limit behind the syncer's own accounting.

The ResourceQuotas count objects and what pods and claims request, including claims for devices. The LimitRange gives a request
to containers that set none, so that all of them count and the best-effort pods of one tenant cannot starve a node that another
tenant uses. It gives a limit only if the class has one, because a limit kills what needs more.

Each counted object updates the whole quota that counts it, and the cost of that for the host's API server grows with the size
of the quota. So pods and Secrets, of which there is one for each pod, have quotas of their own (docs/decisions/0012). For a
resource that a tenant may borrow, its quota is the ceiling, because a pod counts as soon as it exists, and not only once the
ledger has admitted it (docs/decisions/0040). Objects that host and platform keep in the namespace are added on top: a limit is
meant for the tenant's own objects. So there may be as many more Secrets as pods, because the tokens of each pod are in one.
"""

import json
from typing import Final

from bulkhead.api import deviceclaims, labels
from bulkhead.api.ledger import GIVEN, line_name
from bulkhead.api.names import OBJECT_QUOTA, POD_QUOTA, SECRET_QUOTA
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import Amount
from bulkhead.ledger.flavors import named
from bulkhead.ledger.given import tenant_of
from controller.plane import environment
from controller.plane.parts import metadata
from controller.plane.spec import PlaneSpec

LIMITS: Final = "tenant-limits"
_HOSTS_AUTHORITY: Final = 1  # the ConfigMap `kube-root-ca.crt`, which the host puts into every namespace
_OF_PODS: Final = frozenset({"pods", "cpu", "memory", "ephemeral-storage"})


def resource_quotas(spec: PlaneSpec) -> tuple[Obj, ...]:
    """The quotas for pods and what they use (`tenant-quota`), Secrets (`tenant-secrets`), and all else (`tenant-objects`)."""
    hard = limits(spec)
    # The quotas of objects come first and that of pods last: it keeps counting what moved until the host has taken over the
    # others.
    names = (OBJECT_QUOTA, SECRET_QUOTA, POD_QUOTA)
    parts = {name: {key: str(amount) for key, amount in hard.items() if _counted_by(key) == name} for name in names}
    return tuple(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata(spec, name, namespace=spec.work_namespace, annotations=_notes(spec, name)),
            "spec": {"hard": counted},
        }
        for name, counted in parts.items()
        # The quota of pods always exists: other code looks it up by its name.
        if counted or name == POD_QUOTA
    )


def limits(spec: PlaneSpec) -> dict[str, Amount]:
    """What the host counts, by its name there, and the limits: the tenant's own plus what host and platform keep there."""
    others = {"configmaps": _HOSTS_AUTHORITY + environment.number(spec), "secrets": _tokens(spec)}
    # If a device class also stands for a resource on the host, the scheduler creates a claim for each pod that requests it.
    others[deviceclaims.COUNT.removeprefix("count/")] = _tokens(spec)
    quota = spec.quota
    hard = {name: _raised(amount, others.get(name.removeprefix("count/"), 0)) for name, amount in quota.object_limits}
    hard |= {counted_name(name): amount for name, amount in quota.allotted.items()}
    # Claims do not wait at the ledger's gate, so they cannot borrow.
    hard |= {deviceclaims.quota_name(name): hard[counted_name(other)] for name, other in quota.device_class_resources.items()}
    hard |= {counted_name(name): amount for name, amount in spec.ledger.ceilings}
    return hard | {deviceclaims.quota_name(name): Amount.of(limit) for name, limit in quota.device_class_limits.items()}


def _notes(spec: PlaneSpec, name: str) -> dict[str, str]:
    """The annotations for the ledger, and those by which claims for devices are metered."""
    if name == POD_QUOTA and spec.ledger.given:
        return {GIVEN: spec.ledger.given}
    if name == OBJECT_QUOTA and spec.quota.device_class_resources:
        return {deviceclaims.LINES: json.dumps(_lines(spec), separators=(",", ":"))}
    return {}


def _lines(spec: PlaneSpec) -> dict[str, str]:
    """The line in which each device class counts; of a resource with flavors, the tenant's preferred flavor."""
    noted = {"labels": {labels.TENANT: spec.tenant}, "annotations": {GIVEN: spec.ledger.given}}
    tenant = tenant_of({"metadata": noted})
    flavors = {} if tenant is None else named(tenant)
    classes = sorted(spec.quota.device_class_resources.items())
    return {name: line_name(flavors.get(resource, ("",))[0], resource) for name, resource in classes}


def limit_range(spec: PlaneSpec) -> Obj:
    """LimitRange `tenant-limits`."""
    default_request = {name: request for name, request, _ in spec.quota.container_defaults if request}
    default = {name: limit for name, _, limit in spec.quota.container_defaults if limit}
    item: Obj = {"type": "Container"}
    if default_request:
        item["defaultRequest"] = default_request
    if default:
        item["default"] = default
    # For pods, a LimitRange would require limits in all of them. For claims, it would reject every change of a claim that is
    # older than a tighter class, even the host's own binding. Policies enforce both bounds instead (`most-per-pod`,
    # `most-per-claim`).
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": metadata(spec, LIMITS, namespace=spec.work_namespace),
        "spec": {"limits": [item]},
    }


def _tokens(spec: PlaneSpec) -> int:
    """How many Secrets with tokens there may be: one for each pod, or none if pods are not counted."""
    counted = dict(spec.quota.object_limits)
    # A pod that has ended keeps its tokens until it is deleted, but `pods` does not count it.
    pods = counted.get("count/pods", counted.get("pods"))
    return int(pods.number) if pods is not None and pods.is_whole else 0


def _raised(amount: Amount, others: int) -> Amount:
    """The hard limit for the tenant's objects and `others`; a fraction stays as it is, and the host rejects it."""
    return Amount(amount.number + others) if others and amount.is_whole else amount


def _counted_by(name: str) -> str:
    """The ResourceQuota that contains the limit of this name."""
    plain = name.removeprefix("count/")
    if plain == "secrets":
        return SECRET_QUOTA
    of_pods = plain in _OF_PODS or (name.startswith(("requests.", "limits.", "hugepages-")) and name != "requests.storage")
    return POD_QUOTA if of_pods else OBJECT_QUOTA


def counted_name(resource: str) -> str:
    """The name under which a ResourceQuota counts a resource."""
    plain = resource.startswith(("requests.", "limits.", "count/")) or resource.endswith("/requests.storage")
    return resource if plain else f"requests.{resource}"
