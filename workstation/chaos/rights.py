"""The rights that a run needs on the host, and which of them are missing: asked before anything is created.

A run that may create a tenant and not delete it would leave it. Asking changes nothing: the server keeps no review.
"""

import asyncio
from dataclasses import dataclass
from typing import Final

from bulkhead.api import names
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.objects import Resource
from workstation.chaos.plan import Plan

_REVIEWS: Final = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
_KILLS_PLANE_PODS: Final = frozenset({"plane-deleted", "syncer-deleted"})


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a kind, in one namespace or, if that is empty, in the whole cluster."""

    verb: str
    kind: Resource
    namespace: str = ""

    def __str__(self) -> str:
        """As a person reads it."""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        group = f".{self.kind.group}" if self.kind.group else ""
        return f"{self.verb} {self.kind.plural}{group}{where}"


def needed(plan: Plan, namespace: str) -> list[Right]:
    """The rights that a run needs wherever it is called from; without a route to tenants, it needs port-forward as well."""
    found = [Right(verb, kinds.TENANTS) for verb in ("get", "list", "create", "delete", names.LOGIN_VERB)]
    found += [Right(verb, kinds.CERTIFICATE_SIGNING_REQUESTS) for verb in ("get", "create")]
    found += [Right("list", kinds.PODS), Right("list", kinds.SERVICES, names.work_namespace(plan.target))]
    found += [Right(verb, kinds.CONFIG_MAPS, namespace) for verb in ("get", "list", "create", "patch", "delete")]
    found += [Right(verb, kinds.LEASES, namespace) for verb in ("get", "create", "update", "delete")]
    chosen = {experiment.name for experiment in plan.experiments}
    if chosen & _KILLS_PLANE_PODS:
        found.append(Right("delete", kinds.PODS, names.plane_namespace(plan.target)))
    if "controller-deleted" in chosen:
        found.append(Right("delete", kinds.PODS, namespace))
    return found


async def lacking(host: Client, plan: Plan, namespace: str) -> list[Right]:
    """The needed rights that this user does not have, as far as the host says."""
    rights = needed(plan, namespace)
    allowed = await asyncio.gather(*(_may(host, right) for right in rights))
    return [right for right, may in zip(rights, allowed, strict=True) if not may]


async def _may(host: Client, right: Right) -> bool:
    attributes = {"verb": right.verb, "group": right.kind.group, "resource": right.kind.plural}
    if right.namespace:
        attributes["namespace"] = right.namespace
    try:
        review = await host.create(_REVIEWS, {"spec": {"resourceAttributes": attributes}})
    except KubeError:
        # A host that does not say is not a host that refuses.
        return True
    return mapping(review.get("status")).get("allowed") is not False
