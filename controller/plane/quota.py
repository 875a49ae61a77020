"""What the host lets the tenant use in its work namespace: the hard stop behind the syncer's own accounting.

The ResourceQuotas count what pods and claims request, claims for devices too, and objects. The LimitRange gives a request to
containers that name none, so that all of them count and the best-effort pods of one tenant cannot starve a node that another
uses; a limit only where the class has one, since a limit kills what needs more.

Each object that is counted is an update of the whole quota that counts it, and what that costs the host's API server grows
with what stands in the quota: so pods and Secrets, one of each for a pod, have one of their own (docs/decisions/0012).
Of what it may borrow a tenant's quota is the ceiling, since a pod counts as soon as it is there, and not only once the ledger
has let it start (docs/decisions/0040). What host and platform keep in the namespace themselves is on top: a limit is the
tenant's alone. So Secrets may be as many more as there may be pods, since the tokens of each pod lie in one.
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
    """For pods and what they use (`tenant-quota`), for Secrets (`tenant-secrets`), and for all else (`tenant-objects`)."""
    hard = limits(spec)
    # Those of objects first, and that of pods last: it goes on holding what moved until the host has taken it over.
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
        # The one of pods is there always: others look at it by its name.
        if counted or name == POD_QUOTA
    )


def limits(spec: PlaneSpec) -> dict[str, Amount]:
    """What the host counts, by its name there, and up to where: what is not the tenant's own on top of its limits."""
    others = {"configmaps": _HOSTS_AUTHORITY + environment.number(spec), "secrets": _tokens(spec)}
    # Where a class of devices stands for a resource on the host too, its scheduler makes a claim for each pod that asks for it.
    others[deviceclaims.COUNT.removeprefix("count/")] = _tokens(spec)
    quota = spec.quota
    hard = {name: _raised(amount, others.get(name.removeprefix("count/"), 0)) for name, amount in quota.object_limits}
    hard |= {counted_name(name): amount for name, amount in quota.allotted.items()}
    # No claim waits at the ledger's gate, so none borrows.
    hard |= {deviceclaims.quota_name(name): hard[counted_name(other)] for name, other in quota.device_class_resources.items()}
    hard |= {counted_name(name): amount for name, amount in spec.ledger.ceilings}
    return hard | {deviceclaims.quota_name(name): Amount.of(limit) for name, limit in quota.device_class_limits.items()}


def _notes(spec: PlaneSpec, name: str) -> dict[str, str]:
    """What the ledger goes by, and what claims for devices are metered as."""
    if name == POD_QUOTA and spec.ledger.given:
        return {GIVEN: spec.ledger.given}
    if name == OBJECT_QUOTA and spec.quota.device_class_resources:
        return {deviceclaims.LINES: json.dumps(_lines(spec), separators=(",", ":"))}
    return {}


def _lines(spec: PlaneSpec) -> dict[str, str]:
    """By device class the line that it counts in: of a resource with flavors the one that the tenant likes best."""
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
    # Of pods a LimitRange would have every one name its limits, and of claims it would refuse every change of one from before
    # its class became tighter, the host's own binding too. Policies hold both to theirs (`most-per-pod`, `most-per-claim`).
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": metadata(spec, LIMITS, namespace=spec.work_namespace),
        "spec": {"limits": [item]},
    }


def _tokens(spec: PlaneSpec) -> int:
    """How many Secrets of tokens there may be: one for each pod, or none where pods are not counted."""
    counted = dict(spec.quota.object_limits)
    # A pod that has ended keeps its tokens until it is deleted, and `pods` leaves it out.
    pods = counted.get("count/pods", counted.get("pods"))
    return int(pods.number) if pods is not None and pods.is_whole else 0


def _raised(amount: Amount, others: int) -> Amount:
    """The hard limit for so many objects of the tenant's and `others`; a fraction is left to the host to refuse."""
    return Amount(amount.number + others) if others and amount.is_whole else amount


def _counted_by(name: str) -> str:
    """The quota that a name of a limit stands in."""
    plain = name.removeprefix("count/")
    if plain == "secrets":
        return SECRET_QUOTA
    of_pods = plain in _OF_PODS or (name.startswith(("requests.", "limits.", "hugepages-")) and name != "requests.storage")
    return POD_QUOTA if of_pods else OBJECT_QUOTA


def counted_name(resource: str) -> str:
    """The name under which a ResourceQuota counts a resource."""
    plain = resource.startswith(("requests.", "limits.", "count/")) or resource.endswith("/requests.storage")
    return resource if plain else f"requests.{resource}"
