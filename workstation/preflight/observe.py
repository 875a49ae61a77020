"""Reads a cluster. Each list is read by itself, so that a forbidden one only affects the checks that need it. Changes nothing.

Answers are bounded in bytes and items, and every read has its own deadline, because the cluster is not trusted.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import quote

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from bulkhead.kube import codec
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.objects import Resource
from workstation.preflight.facts import Listed, Unseen

_SECONDS = 15.0
_MAX_ITEMS = 20_000
_MAX_KUBELETS = 32
_MIB = 1 << 20
_REVIEWS = Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False)
_MUTATING = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)

# name ──> kind, namespace, label selector, field selector
LISTS: Final[Mapping[str, tuple[Resource, str | None, str | None, str | None]]] = {
    "nodes": (kinds.NODES, None, None, None),
    "node leases": (kinds.LEASES, "kube-node-lease", None, None),
    "pods": (kinds.PODS, None, None, "status.phase=Running"),
    "servicecidrs": (kinds.SERVICE_CIDRS, None, None, None),
    "host api": (kinds.ENDPOINT_SLICES, "default", "kubernetes.io/service-name=kubernetes", None),
    "host service": (kinds.SERVICES, "default", None, "metadata.name=kubernetes"),
    "dns service": (kinds.SERVICES, None, None, "metadata.name=kube-dns"),
    "storageclasses": (kinds.STORAGE_CLASSES, None, None, None),
    "volumesnapshotclasses": (kinds.VOLUME_SNAPSHOT_CLASSES, None, None, None),
    "deviceclasses": (kinds.DEVICE_CLASSES, None, None, None),
    "tenantclasses": (kinds.TENANT_CLASSES, None, None, None),
    "resourceslices": (kinds.RESOURCE_SLICES, None, None, None),
    "customresourcedefinitions": (kinds.CUSTOM_RESOURCE_DEFINITIONS, None, None, None),
    "apiservices": (kinds.API_SERVICES, None, None, None),
    "validating webhooks": (kinds.VALIDATING_WEBHOOKS, None, None, None),
    "mutating webhooks": (_MUTATING, None, None, None),
    "admission policies": (kinds.VALIDATING_ADMISSION_POLICIES, None, None, None),
    "controllers": (kinds.DEPLOYMENTS, None, labels.CONTROLLER, None),
}

# The objects of the chart; a test compares this with the rendered chart.
INSTALLED: Final[tuple[tuple[str, str], ...]] = (
    ("", "namespaces"), ("", "configmaps"), ("", "secrets"), ("", "serviceaccounts"), ("", "services"), ("apps", "deployments"),
    ("networking.k8s.io", "networkpolicies"), ("policy", "poddisruptionbudgets"), ("scheduling.k8s.io", "priorityclasses"),
    ("rbac.authorization.k8s.io", "roles"), ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"), ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"), ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
)  # fmt: skip
_GROUPS: Final = (("networking.k8s.io/v1", "servicecidrs"), ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies"))


async def version(client: Client) -> tuple[str, datetime | None, datetime]:
    """The server's version, the server's time, and this machine's time at that moment."""
    answer = await client.transport.exchange("GET", "/version", timeout=10.0, max_body=_MIB)
    here = datetime.now(UTC)
    if answer.status >= 400:
        # A server may refuse even its version to anonymous users; that is reported like any other error.
        await client.version()
    try:
        there = parsedate_to_datetime(answer.headers.get("date", ""))
    except ValueError:
        there = None
    return text(codec.decode_obj(answer.data).get("gitVersion")), there if there and there.tzinfo else None, here


async def lists(client: Client, namespace: str) -> dict[str, Listed]:
    """Every list, or the reason why it was not read; some are of the release's namespace."""
    wanted = {
        **LISTS,
        "namespaces": (kinds.NAMESPACES, None, None, f"metadata.name={namespace}"),
        "limitranges": (kinds.LIMIT_RANGES, namespace, None, None),
        "resourcequotas": (kinds.RESOURCE_QUOTAS, namespace, None, None),
    }
    found = await asyncio.gather(*(_bounded(_list(client, *list_of)) for list_of in wanted.values()))
    return dict(zip(wanted, found, strict=True))


async def _list(
    client: Client, kind: Resource, namespace: str | None, labels: str | None, fields: str | None
) -> tuple[Mapping[str, Any], ...]:
    items: list[Obj] = []
    try:
        async for page in client.pages(kind, namespace, label_selector=labels, field_selector=fields):
            items += [codec.decode_obj(raw) for raw in page.items]
            if len(items) >= _MAX_ITEMS:
                break
    except NotFound:
        return ()  # a kind that the server does not have has no objects
    return tuple(items[:_MAX_ITEMS])


async def _bounded(read: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout(_SECONDS):
            return await read
    except TimeoutError:
        return Unseen(f"no answer within {_SECONDS:g} s")
    except (KubeError, ValueError) as error:
        return Unseen(str(error))


async def groups(client: Client) -> dict[str, bool | Unseen]:
    """Whether the APIs that Bulkhead needs are served."""

    async def served(group: str, resource: str) -> bool:
        try:
            found = codec.decode_obj(await client.get_raw(f"/apis/{group}"))
        except NotFound:
            return False
        return any(text(served.get("name")) == resource for served in mappings(found.get("resources"), 500))

    found = await asyncio.gather(*(_bounded(served(*group)) for group in _GROUPS))
    return {f"{group}/{resource}": each for (group, resource), each in zip(_GROUPS, found, strict=True)}


async def denied(client: Client) -> tuple[str, ...] | Unseen:
    """The rights for an installation that these credentials lack."""

    async def may(verb: str, group: str, resource: str) -> bool:
        attributes = {"verb": verb, "group": group, "resource": resource}
        review = await client.create(_REVIEWS, {"spec": {"resourceAttributes": attributes}})
        return mapping(review.get("status")).get("allowed") is True

    async def all_of() -> tuple[str, ...]:
        if await may("*", "*", "*"):
            return ()
        asked = [(verb, group, name) for group, name in INSTALLED for verb in ("get", "create", "patch")]
        # The chart's roles grant rights that the installer does not need, if it has the verbs `bind` and `escalate`.
        asked += [(verb, "rbac.authorization.k8s.io", "clusterroles") for verb in ("bind", "escalate")]
        answers = await asyncio.gather(*(may(*right) for right in asked))
        lacking = [right for right, allowed in zip(asked, answers, strict=True) if not allowed]
        return tuple(f"{verb} {name}{'.' if group else ''}{group}" for verb, group, name in lacking)

    found: tuple[str, ...] | Unseen = await _bounded(all_of())
    return found


async def kubelets(client: Client, names: list[str]) -> dict[str, Mapping[str, Any] | Unseen]:
    """The configuration of kubelets, if the server proxies requests to them."""
    places = asyncio.Semaphore(8)

    async def one(name: str) -> Mapping[str, Any]:
        async with places:
            path = f"/api/v1/nodes/{quote(name, safe='')}/proxy/configz"
            return codec.decode_obj(await client.transport.request("GET", path, timeout=5.0, max_body=_MIB))

    chosen = names[:_MAX_KUBELETS]
    found = await asyncio.gather(*(_bounded(one(name)) for name in chosen))
    return dict(zip(chosen, found, strict=True))
