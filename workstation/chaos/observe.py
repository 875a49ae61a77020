"""Reads what a run has to know of the host: classes, tenants, the controller, and the pods of all planes. Judges nothing."""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api import labels, names
from bulkhead.api.conditions import HOPELESS, ConditionType, condition_of, current_condition
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from workstation.chaos import objects
from workstation.chaos.judge import HOST, Pods
from workstation.chaos.plan import Facts, TenantFact
from workstation.chaos.record import is_own_tenant

_COMPONENTS: Final = frozenset({"plane", "syncer", "dns"})
# As the chart calls the container.
_CONTROLLER: Final = "controller"
_MAX_CONTAINERS: Final = 32


async def facts(host: Client, namespace: str) -> Facts:
    """The classes, tenants and the controller's image. Raises KubeError, and NotFound if Bulkhead is not installed."""
    classes = await host.list(kinds.TENANT_CLASSES)
    tenants = await host.list(kinds.TENANTS)
    pods = await controllers(host, namespace)
    return Facts(
        classes=tuple(str(item["metadata"]["name"]) for item in classes.items),
        tenants={str(item["metadata"]["name"]): tenant_fact(item) for item in tenants.items},
        image=next((image for pod in pods if (image := _image(pod))), ""),
    )


def tenant_fact(tenant: Obj) -> TenantFact:
    """What a Tenant is to a run."""
    run = text(mapping(tenant["metadata"].get("labels")).get(objects.RUN))
    own = is_own_tenant(run, text(tenant["metadata"].get("name")))
    return TenantFact(str(tenant["metadata"].get("uid")), is_ready(tenant), run if own else "")


def is_ready(tenant: Obj) -> bool:
    """Whether the controller says of the present spec that the tenant is Ready."""
    return current_condition(tenant, ConditionType.READY).get("status") == "True"


def refusal(tenant: Obj) -> str:
    """Why the controller refuses the present spec, so that no wait makes the tenant Ready; empty if it does not."""
    ready = current_condition(tenant, ConditionType.READY)
    return f"{ready.get('reason')}: {ready.get('message')}" if ready.get("reason") in HOPELESS else ""


async def controllers(host: Client, namespace: str) -> list[Obj]:
    """The pods of Bulkhead's controller."""
    return (await host.list(kinds.PODS, namespace, label_selector=labels.CONTROLLER)).items


async def own_pods(host: Client, tenant: str, component: str) -> list[Obj]:
    """The pods that Bulkhead runs for a tenant, of one component."""
    selector = labels.tenant_selector(tenant, component)
    return (await host.list(kinds.PODS, names.plane_namespace(tenant), label_selector=selector)).items


async def pods(host: Client, namespace: str) -> dict[str, Pods]:
    """By tenant, the pods that Bulkhead runs for it; by `HOST`, those of the system namespace."""
    # Without the components the server would send the copies of all tenants' pods, too.
    ours = f"{labels.MANAGED_BY}={labels.MANAGED_BY_BULKHEAD},{labels.TENANT}"
    listed = await host.list(kinds.PODS, label_selector=f"{ours},{labels.COMPONENT} in ({','.join(sorted(_COMPONENTS))})")
    by_subject: dict[str, list[Obj]] = {}
    for pod in listed.items:
        marks = mapping(pod["metadata"].get("labels"))
        tenant = text(marks.get(labels.TENANT))
        # Any user who runs pods on the host may label them so, also with what no tenant can be called.
        here = tenant and names.tenant_of_plane(text(pod["metadata"].get("namespace"))) == tenant
        if here and marks.get(labels.COMPONENT) in _COMPONENTS:
            by_subject.setdefault(tenant, []).append(pod)
    by_subject[HOST] = await controllers(host, namespace)
    return {subject: _counted(found) for subject, found in by_subject.items()}


def _counted(found: list[Obj]) -> Pods:
    restarts = sum(restarts_of(pod) for pod in found)
    return Pods(restarts, frozenset(str(pod["metadata"].get("uid")) for pod in found))


def restarts_of(pod: Mapping[str, Any]) -> int:
    """How often the containers of a pod were started again."""
    statuses = mappings(mapping(pod.get("status")).get("containerStatuses"), _MAX_CONTAINERS)
    return sum(count for status in statuses if isinstance(count := status.get("restartCount"), int))


def _image(pod: Mapping[str, Any]) -> str:
    """The controller's image; a mesh may have put a container of its own in front."""
    containers = mappings(mapping(pod.get("spec")).get("containers"), _MAX_CONTAINERS)
    ordered = sorted(containers, key=lambda container: container.get("name") != _CONTROLLER)
    return next((image for container in ordered if (image := text(container.get("image")))), "")


def waits_for(tenant: Obj) -> str:
    """What a tenant that is not Ready waits for, in the controller's words."""
    listed = mappings(mapping(tenant.get("status")).get("conditions"), 64)
    parts = [item for item in listed if item.get("status") != "True" and item.get("type") != ConditionType.READY]
    shown = parts[0] if parts else condition_of(tenant, ConditionType.READY)
    return f"{shown.get('type')}: {shown.get('message') or shown.get('reason')}" if shown else "it was not reconciled yet"
