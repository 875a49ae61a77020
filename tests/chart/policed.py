"""Requests to an API server with the chart's policies, and what these say to them."""

import secrets
from collections.abc import Mapping
from typing import Any

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import MERGE_PATCH, Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import NAMESPACES
from controller.plane.policyfacts import policy_facts
from syncer.translate.diff import STRATEGIC
from tests.chart.admission_objects import (
    FACTS,
    KINDS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    TEAM_A,
    Change,
)
from tests.chart.admission_samples import REFUSED
from tests.kit.applying import apply_all
from tests.kit.helmchart import rendered
from tests.kit.known import IN_FORCE, all_known
from tests.kit.servers import HOST_KUBERNETES, ServerOptions
from tests.kit.snapshotting import serve_snapshots
from tests.kit.syncerbed import until
from tests.kit.tenantsamples import plane_spec

DEVICE_CLASSES = "deviceClasses={gpu.example.com,nic.example.com,of-others}"
EXTENDED = "extendedResources={rdma/hca,rdma/of-others,hugepages-2Mi,hugepages-1Gi}"
# What the installation offers; TEAM_A's class offers less.
VALUES = (
    "--set", "ingressDomains={x.org,z.org}", "--set", "snapshotClasses={daily,weekly}",
    "--set", "hostMetadataDomains={mesh.example.org}", "--set", DEVICE_CLASSES, "--set", EXTENDED,
    "--set", "podNetworks={10.244.0.0/16,fd00:10:244::/56}",
)  # fmt: skip
SYNCER = "system:serviceaccount:bh-team-a:syncer"
WORKLOADS = Resource("scheduling.k8s.io", "v1alpha2", "workloads", "Workload", True)
# The gates of the PodGroup's fields, and of references to other namespaces: what a host drops by itself needs no policy.
GATES = (
    "GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption",
    "DRAWorkloadResourceClaims", "CrossNamespaceVolumeDataSource",
)  # fmt: skip
# What is on by itself in the Kubernetes that the tree names.
OLDER_GATES = ("ImageVolume", "UserNamespacesPodSecurityStandards") if HOST_KUBERNETES else ()
OPTIONS = ServerOptions(
    feature_gates=dict.fromkeys(GATES + OLDER_GATES, True), runtime_config={"scheduling.k8s.io/v1alpha2": True}
)


_in_force: set[str] = set()


async def prepare(client: Client) -> None:
    """The policies, two tenants, and what their classes offer: as they are to be, whatever a test made of them."""
    others = policy_facts(plane_spec(tenant="team-b", service_slice="10.112.8.0/22"))
    objects = [
        of(NAMESPACES, name, metadata={"name": name, "annotations": facts})
        for name, facts in (("bh-team-a", {}), ("bh-team-a-work", FACTS), ("bh-team-b-work", others))
    ]
    objects += [of(kinds.PRIORITY_CLASSES, name, value=5) for name in PRIORITY_CLASSES]
    objects += [of(kinds.RUNTIME_CLASSES, name, handler=name) for name in RUNTIME_CLASSES]
    for name, slice_ in (("team-a", TEAM_A.service_slice), ("team-b", "10.112.8.0/22")):
        objects.append(of(kinds.SERVICE_CIDRS, name, spec={"cidrs": [slice_]}))
    await apply_all(client, objects)
    template = {"name": "t", "schedulingPolicy": {"basic": {}}}
    meta = {"name": "of-the-host", "namespace": "bh-team-a-work"}
    workload = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "metadata": meta}
    if not HOST_KUBERNETES:  # older hosts have no PodGroups
        await client.apply(WORKLOADS, workload | {"spec": {"podGroupTemplates": [template]}})
    await serve_snapshots(client)
    await apply_all(client, policies(*VALUES))
    await all_known(client)


def of(r: Resource, name: str, **content: Any) -> Obj:
    """An object of a kind."""
    return {"apiVersion": r.api_version, "kind": r.kind, "metadata": {"name": name}} | content


def policies(*values: str) -> list[Obj]:
    """The chart's admission policies and their bindings."""
    return [obj for obj in rendered(*values) if obj["kind"].startswith("ValidatingAdmissionPolicy")]


async def refused(client: Client, obj: dict[str, Any], *, cleaner: Client) -> str:
    """What one of our policies says to refuse a create, empty where none does; everything else that goes wrong is an error.

    What was let through goes by `cleaner`: a policy that comes into force in between may refuse its maker the deletion.
    """
    resource = KINDS[obj["kind"]]
    if obj["metadata"]["name"] == "x":
        # What slipped through before the policies were in force may still be on its way out under its name.
        obj = named(obj)
    try:
        await client.create(resource, obj)
    except ApiError as error:
        return reason_of(error)
    await cleaner.delete(resource, obj["metadata"]["name"], obj["metadata"]["namespace"], grace_seconds=0)
    return ""


async def refused_change(client: Client, change: Change, admin: Client) -> str:
    """The same of a patch."""
    resource = KINDS[change.made["kind"]]
    made = await (admin if change.by_others else client).create(resource, named(change.made))
    name, space = made["metadata"]["name"], made["metadata"]["namespace"]
    if change.status:
        await admin.patch(resource, name, change.status, space, subresource="status")
    kind = STRATEGIC if change.subresource == "resize" else MERGE_PATCH
    try:
        await client.patch(resource, name, change.patch, space, subresource=change.subresource, content_type=kind)
    except ApiError as error:
        return reason_of(error)
    finally:
        await admin.patch(resource, name, {"metadata": {"finalizers": None}}, space)
        await admin.delete(resource, name, space, grace_seconds=0)
    return ""


def named(obj: dict[str, Any]) -> dict[str, Any]:
    """The object under a name of its own."""
    return obj | {"metadata": obj["metadata"] | {"name": f"x-{secrets.token_hex(4)}"}}


def reason_of(error: ApiError) -> str:
    """The words of a policy of ours; raises any other error."""
    if "ValidatingAdmissionPolicy 'bulkhead-" not in error.message:
        raise error
    return error.message.partition(" denied request: ")[2]


def left_out(samples: Mapping[str, Any]) -> set[str]:
    """The samples of what this host does not have: an older one has no PodGroups."""
    return {
        name
        for name, sample in samples.items()
        if HOST_KUBERNETES and (sample.made if isinstance(sample, Change) else sample)["kind"] == "PodGroup"
    }


async def in_force(client: Client, admin: Client) -> None:
    """New policies are picked up within moments; wait until each of them bites, of one server once."""
    if client.config.server in _in_force:
        return
    for name in (
        "the plane's namespace", "no marker", "node port", "a secret that the host fills", "a policy for everyone",
        "a claim for devices of the host", "another tenant's host", "a group with claims",
        "another's snapshot content", "a claim with data from anywhere", "endpoints of no Service",
        "a budget in per cent",
    ):  # fmt: skip
        if name not in left_out(REFUSED):
            await until_refused(client, REFUSED[name], admin)
    _in_force.add(client.config.server)


async def until_refused(client: Client, obj: dict[str, Any], admin: Client, reason: str = "") -> None:
    """Wait until a policy refuses a create: for the reason, where one is given."""

    async def bites() -> bool:
        said = await refused(client, obj, cleaner=admin)
        return said == reason if reason else bool(said)

    await until(bites, f"{obj['kind']} refused: {reason or 'for any reason'}", IN_FORCE)


async def until_let_in(client: Client, obj: dict[str, Any], admin: Client) -> None:
    """Wait until no policy refuses a create."""

    async def passes() -> bool:
        return not await refused(client, obj, cleaner=admin)

    await until(passes, f"{obj['kind']} let in", IN_FORCE)


async def noted(admin: Client, key: str, value: str | None) -> None:
    await admin.patch(NAMESPACES, "bh-team-a-work", {"metadata": {"annotations": {f"bulkhead.dev/{key}": value}}})
