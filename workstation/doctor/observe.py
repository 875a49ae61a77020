"""Reads an installation. Each thing is read by itself, so that a forbidden one affects only the checks that need it.

No Secret's content is read but that of Helm's release, which has the chart's values; of `bulkhead-identity` only its metadata.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from bulkhead.api import labels
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.objects import Resource
from workstation.doctor.facts import Key, Seen, key_of
from workstation.doctor.release import CHART, Release, decoded
from workstation.preflight import observe as of_cluster
from workstation.preflight.facts import Listed, Obj, Observed, Unseen

_OF_CLUSTER: Final = ("node leases", "validating webhooks", "mutating webhooks", "dns service")
_DNS_SPACES: Final = ("kube-system", "openshift-dns")  # namespaces in which the cluster's DNS may be
_SECONDS: Final = 15.0
_AT_ONCE: Final = 8
_MAX_ITEMS: Final = 20_000
_MAX_PODS: Final = 8
_METRICS_LIMIT: Final = 16 << 20
_METRICS_PORT: Final = 8080
_LEASE: Final = "bulkhead-controller"
IDENTITY: Final = "bulkhead-identity"
_CONTROLLER: Final = labels.CONTROLLER
_SYNCERS: Final = "app.kubernetes.io/managed-by=bulkhead,bulkhead.dev/component=syncer"


async def seen(client: Client, namespace: str, client_version: str) -> Seen:
    """Everything. Raises KubeError if the server does not answer at all."""
    version, there, here = await of_cluster.version(client)
    lists = _lists(namespace)
    async with asyncio.TaskGroup() as tasks:
        listed = tasks.create_task(_all(client, lists))
        release = tasks.create_task(_bounded(_release(client, namespace)))
        identity = tasks.create_task(_bounded(_names(client, kinds.SECRETS, namespace, IDENTITY)))
    found = dict(listed.result()) | {"identity": identity.result()}
    found["pods"] = _joined([found.pop(f"pods of {space}") for space in _DNS_SPACES])
    live: Mapping[Key, Any] = {}
    if isinstance(release.result(), Release):
        live = await _live(client, release.result().objects, namespace)
    pods = found["controller pods"]
    metrics = await _metrics(client, namespace, () if isinstance(pods, Unseen) else pods)
    cluster = Observed(here=here, there=there, namespace=namespace, version=version, lists=found)
    return Seen(cluster, client_version, namespace, release.result(), live, metrics)


def _lists(namespace: str) -> dict[str, tuple[Resource, str | None, str | None, str | None]]:
    return {
        "tenants": (kinds.TENANTS, None, None, None),
        "classes": (kinds.TENANT_CLASSES, None, None, None),
        "nodes": (kinds.NODES, None, None, None),
        "controllers": (kinds.DEPLOYMENTS, None, _CONTROLLER, None),
        "controller pods": (kinds.PODS, namespace, _CONTROLLER, None),
        "syncers": (kinds.DEPLOYMENTS, None, _SYNCERS, None),
        "lease": (kinds.LEASES, namespace, None, f"metadata.name={_LEASE}"),
        "work quotas": (kinds.RESOURCE_QUOTAS, None, "app.kubernetes.io/managed-by=bulkhead", None),
        "customresourcedefinitions": (kinds.CUSTOM_RESOURCE_DEFINITIONS, None, None, None),
        "admission policies": (kinds.VALIDATING_ADMISSION_POLICIES, None, None, None),
        "admission bindings": (kinds.VALIDATING_ADMISSION_POLICY_BINDINGS, None, None, None),
        **{f"pods of {space}": (kinds.PODS, space, None, "status.phase=Running") for space in _DNS_SPACES},
        **{name: of_cluster.LISTS[name] for name in _OF_CLUSTER},
    }


def _joined(parts: Sequence[Listed]) -> Listed:
    """All items of several lists; not seen if one of them was not."""
    unseen = next((part for part in parts if isinstance(part, Unseen)), None)
    return unseen or tuple(item for part in parts if not isinstance(part, Unseen) for item in part)


async def _all(
    client: Client, lists: Mapping[str, tuple[Resource, str | None, str | None, str | None]]
) -> Mapping[str, Listed]:
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(kind: Resource, namespace: str | None, selector: str | None, fields: str | None) -> tuple[Obj, ...]:
        items: list[Obj] = []
        async with places:
            try:
                async for page in client.pages(kind, namespace, label_selector=selector, field_selector=fields):
                    items += [codec.decode_obj(raw) for raw in page.items]
                    if len(items) >= _MAX_ITEMS:
                        break
            except NotFound:
                return ()  # a kind that the server does not have has no objects
        return tuple(items[:_MAX_ITEMS])

    found = await asyncio.gather(*(_bounded(one(*asked)) for asked in lists.values()))
    return dict(zip(lists, found, strict=True))


async def _names(client: Client, kind: Resource, namespace: str, name: str) -> tuple[Obj, ...]:
    """An object's metadata, as a list of one or none: its content stays where it is."""
    pages = client.pages(kind, namespace, field_selector=f"metadata.name={name}", metadata_only=True)
    return tuple([codec.decode_obj(raw) async for page in pages for raw in page.items])


async def _release(client: Client, namespace: str) -> Release | Unseen:
    """The chart's release that Helm says is installed, with the status of its last revision.

    A command of helm that failed or was interrupted leaves a revision of its own, and the one before it stays `deployed`. A
    first installation that failed has no other one.
    """
    for statuses in ("status=deployed", "status!=deployed,status!=superseded"):
        listed = await client.list(kinds.SECRETS, namespace, label_selector=f"owner=helm,{statuses}")
        releases = [release for release in map(decoded, listed.items) if release.chart == CHART]
        if releases:
            found = max(releases, key=lambda release: release.revision)
            return replace(found, status=await _last_status(client, namespace, found))
    return Unseen(f"Helm has no release of the chart {CHART} in namespace {namespace}")


async def _last_status(client: Client, namespace: str, release: Release) -> str:
    pages = client.pages(kinds.SECRETS, namespace, label_selector=f"owner=helm,name={release.name}", metadata_only=True)
    revisions = [
        mapping(mapping(codec.decode_obj(raw).get("metadata")).get("labels")) async for page in pages for raw in page.items
    ]
    last = max(revisions, key=_revision, default={})
    return text(last.get("status")) or release.status


def _revision(marks: Mapping[str, Any]) -> int:
    number = text(marks.get("version"))
    return int(number[:9]) if number.isdecimal() else 0


async def _live(client: Client, objects: tuple[Obj, ...], namespace: str) -> dict[Key, Obj | Unseen | None]:
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(key: Key) -> Obj | Unseen | None:
        api_version, kind, there, name = key
        resource = _resource(api_version, kind)
        async with places:
            try:
                if kind == "Secret":
                    found = await _bounded(_names(client, resource, there, name))
                    return found if isinstance(found, Unseen) else next(iter(found), None)
                obj: Obj | Unseen = await _bounded(_get(client, resource, there, name))
            except NotFound:
                return None
            return obj

    keys = [key_of(obj, namespace) for obj in objects]
    found = await asyncio.gather(*(one(key) for key in keys))
    return dict(zip(keys, found, strict=True))


async def _get(client: Client, resource: Resource, namespace: str, name: str) -> Obj:
    return await client.get(resource, name, namespace if resource.namespaced else None)


def _resource(api_version: str, kind: str) -> Resource:
    """The resource of a kind; of one that Bulkhead does not use itself, by the rule that all kinds of the chart follow."""
    try:
        return kinds.resource_of(api_version, kind)
    except KeyError:
        group, _, version = api_version.rpartition("/")
        lower = kind.lower()
        plural = f"{lower[:-1]}ies" if lower.endswith("y") else f"{lower}es" if lower.endswith("s") else f"{lower}s"
        return Resource(group, version, plural, kind, not kind.startswith("Cluster"))


async def _metrics(client: Client, namespace: str, pods: tuple[Obj, ...]) -> dict[str, str | Unseen]:
    """What each pod of the controller exports, through the API server."""

    async def one(name: str) -> str:
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}:{_METRICS_PORT}/proxy/metrics"
        answer = await client.transport.request("GET", path, accept="text/plain", timeout=10.0, max_body=_METRICS_LIMIT)
        return answer.decode("utf-8", "replace")

    running = [pod for pod in pods if text(mapping(pod.get("status")).get("phase")) == "Running"]
    names = [text(mapping(pod.get("metadata")).get("name")) for pod in running][:_MAX_PODS]
    found = await asyncio.gather(*(_bounded(one(name), also_missing=True) for name in names))
    return dict(zip(names, found, strict=True))


async def _bounded(read: Awaitable[Any], *, also_missing: bool = False) -> Any:
    """What was read, or why it was not; that something does not exist is for the caller, unless `also_missing`."""
    try:
        async with asyncio.timeout(_SECONDS):
            return await read
    except TimeoutError:
        return Unseen(f"no answer within {_SECONDS:g} s")
    except NotFound as error:
        if not also_missing:
            raise
        return Unseen(str(error))
    except (KubeError, ValueError) as error:
        return Unseen(str(error))
