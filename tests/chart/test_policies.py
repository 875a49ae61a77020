"""The chart's admission policies on a real API server: the second decider over what a syncer, and the controller, may write."""

import asyncio
import secrets
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import MERGE_PATCH, Client
from bulkhead.kube.errors import ApiError
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import (
    ENDPOINT_SLICES,
    INGRESSES,
    NAMESPACES,
    NODES,
    PODS,
    VOLUME_SNAPSHOTS,
    resource_of,
)
from controller.plane.policyfacts import policy_facts
from controller.plane.quota import limit_range
from syncer.translate.diff import STRATEGIC
from syncer.translate.kinds.classes import BETA_DEFAULT_STORAGE_CLASS, DEFAULT_STORAGE_CLASS
from tests.apiserver.servers import ApiServer, ServerOptions, running
from tests.apiserver.snapshotting import serve_snapshots
from tests.chart import admission_bounds as bounds
from tests.chart.admission_kept import JUDGED, KEPT
from tests.chart.admission_reasons import REASONS, REASONS_OF_CHANGES
from tests.chart.admission_samples import (
    ALLOWED,
    CHANGES,
    CLOSED,
    FACTS,
    GRANTED,
    KINDS,
    MARKS,
    PRIORITY_CLASSES,
    REFUSED,
    RUNTIME_CLASSES,
    TEAM_A,
    Change,
    claim,
    debugger,
    endpoints,
    in_armour,
    ingress,
    mirrored,
    node_ports,
    of_node,
    of_size,
    pod,
    sized,
    snapshot,
)
from tests.chart.helmchart import rendered
from tests.controller.samples import plane_spec

DEVICE_CLASSES = "deviceClasses={gpu.example.com,nic.example.com,of-others}"
EXTENDED = "extendedResources={rdma/hca,rdma/of-others,hugepages-2Mi,hugepages-1Gi}"
# What the installation offers; TEAM_A's class offers less.
VALUES = (
    "--set", "ingressDomains={x.org,z.org}", "--set", "snapshotClasses={daily,weekly}",
    "--set", "hostMetadataDomains={mesh.example.org}", "--set", DEVICE_CLASSES, "--set", EXTENDED,
    "--set", "podNetworks={10.244.0.0/16,fd00:10:244::/56}",
)  # fmt: skip
SYNCER = "system:serviceaccount:bh-team-a:syncer"
CONTROLLER = "system:serviceaccount:bulkhead-system:bulkhead-controller"
WORKLOADS = Resource("scheduling.k8s.io", "v1alpha2", "workloads", "Workload", True)
TOO_LARGE = "pod: requests more than the class of its tenant lets one pod request"
TOO_FAR = "pod: a limit lies further above its request than the class of its tenant lets it"
NOT_NOTED = "pod: the controller has not noted yet what this tenant may; it does so in its next pass"
# What is said under other facts than those of the samples, each in a test of its own.
OF_OTHER_FACTS = (
    "claim: of the host's default StorageClass, because none is offered to its tenant",
    NOT_NOTED,
    "pod: runs in a user namespace of its own",
    "pod: at level restricted not root, in a user namespace neither",
)
# And what is no create and no change.
OF_OTHER_REQUESTS = ("syncer: the host's scheduler alone binds pods", "syncer: a pod is given a second to an hour to end")
# The gates of the PodGroup's fields, and of references to other namespaces: what a host drops by itself needs no policy.
GATES = (
    "GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption",
    "DRAWorkloadResourceClaims", "CrossNamespaceVolumeDataSource",
)  # fmt: skip


@pytest.fixture(scope="module")
def policed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An API server with the chart's policies and the namespaces of two tenants; the syncer may do anything but for them."""
    options = ServerOptions(feature_gates=dict.fromkeys(GATES, True), runtime_config={"scheduling.k8s.io/v1alpha2": True})
    with running("policed", tmp_path_factory.mktemp("policed"), options) as server:
        yield server


@pytest.fixture
async def admin(policed: ApiServer) -> Any:
    async with Client(policed.admin, user_agent="tests", field_manager="tests") as client:
        await prepare(client)
        yield client


@pytest.fixture
async def syncer(policed: ApiServer, admin: Client) -> Any:
    # Group system:masters gives it every right, so that only the policies can say no.
    async with Client(policed.config_for(SYNCER, "system:masters"), user_agent="tests", field_manager="syncer") as client:
        yield client


async def prepare(client: Client) -> None:
    others = policy_facts(plane_spec(tenant="team-b", service_slice="10.112.8.0/22"))
    for name, facts in (("bh-team-a", {}), ("bh-team-a-work", FACTS), ("bh-team-b-work", others)):
        meta = {"name": name, "annotations": facts}
        await client.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    for name in PRIORITY_CLASSES:
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 5}
        await client.apply(kinds.PRIORITY_CLASSES, made)
    for name in RUNTIME_CLASSES:
        made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name}
        await client.apply(kinds.RUNTIME_CLASSES, made)
    for name, slice_ in (("team-a", TEAM_A.service_slice), ("team-b", "10.112.8.0/22")):
        await client.apply(kinds.SERVICE_CIDRS, {"metadata": {"name": name}, "spec": {"cidrs": [slice_]}})
    template = {"name": "t", "schedulingPolicy": {"basic": {}}}
    meta = {"name": "of-the-host", "namespace": "bh-team-a-work"}
    workload = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload", "metadata": meta}
    await client.apply(WORKLOADS, workload | {"spec": {"podGroupTemplates": [template]}})
    await serve_snapshots(client)
    for obj in rendered(*VALUES):
        if obj["kind"].startswith("ValidatingAdmissionPolicy"):
            await client.apply(resource_of(obj["apiVersion"], obj["kind"]), obj)


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


async def in_force(client: Client, admin: Client) -> None:
    """New policies are picked up within moments; wait until one bites."""
    async with asyncio.timeout(60):
        for name in (
            "the plane's namespace", "no marker", "node port", "a secret that the host fills", "a policy for everyone",
            "a claim for devices of the host", "another tenant's host", "a group with claims",
            "a snapshot's content of somebody", "a claim with data from anywhere", "endpoints of no Service",
            "a budget in per cent",
        ):  # fmt: skip
            while not await refused(client, REFUSED[name], cleaner=admin):  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.1)


@pytest.mark.apiserver
async def test_the_policies_refuse_what_a_syncer_must_not_write(syncer: Client, admin: Client) -> None:
    """Each for the one reason that is its own, so that no rule can go missing behind another one."""
    await in_force(syncer, admin)
    said = {name: await refused(syncer, obj, cleaner=admin) for name, obj in (REFUSED | bounds.REFUSED).items()}
    assert said == {name: reason for reason, samples in REASONS.items() for name in samples}


def test_each_rule_for_syncers_has_a_sample_that_it_refuses() -> None:
    rules = {
        rule["message"]
        for obj in rendered()
        if obj["kind"] == "ValidatingAdmissionPolicy" and obj["metadata"]["name"].startswith("bulkhead-syncer-")
        for rule in obj["spec"]["validations"]
    }
    assert rules == {*REASONS, *REASONS_OF_CHANGES, *OF_OTHER_FACTS, *OF_OTHER_REQUESTS}


@pytest.mark.apiserver
async def test_the_policies_let_ordinary_objects_through(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    stopped = [name for name, obj in (ALLOWED | bounds.ALLOWED).items() if await refused(syncer, obj, cleaner=admin)]
    assert not stopped


@pytest.mark.apiserver
async def test_the_policies_refuse_what_a_syncer_must_not_change(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    said = {name: await refused_change(syncer, change, admin) for name, change in (CHANGES | bounds.CHANGES).items()}
    assert said == {name: reason for reason, samples in REASONS_OF_CHANGES.items() for name in samples}


@pytest.mark.apiserver
async def test_of_what_was_let_in_once_only_changes_are_judged(syncer: Client, admin: Client) -> None:
    """A class, a list of the installation or a rule became tighter since: labels go on being written."""
    await in_force(syncer, admin)
    said = {name: await refused_change(syncer, change, admin) for name, change in KEPT.items()}
    assert {name: text for name, text in said.items() if text} == {}
    said = {name: await refused_change(syncer, change, admin) for name, (_, change) in JUDGED.items()}
    assert said == {name: reason for name, (reason, _) in JUDGED.items()}


async def test_the_policies_let_ordinary_changes_through(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    stopped = {name: await refused_change(syncer, change, admin) for name, change in bounds.CHANGES_ALLOWED.items()}
    assert stopped == dict.fromkeys(stopped, "")


@pytest.mark.apiserver
@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "Pod"])
async def test_what_is_not_the_syncers_is_not_deleted_by_it(kind: str, syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    made = await admin.create(KINDS[kind], named(pod(labels={}) if kind == "Pod" else mirrored(kind, labels={})))
    with pytest.raises(ApiError, match="carries the marker"):
        await syncer.delete(KINDS[kind], made["metadata"]["name"], "bh-team-a-work")


@pytest.mark.apiserver
async def test_a_pod_is_neither_bound_nor_ended_at_once_by_a_syncer(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    made = await syncer.create(PODS, named(pod()))
    name, space = made["metadata"]["name"], made["metadata"]["namespace"]
    # The marks on the binding itself mean nothing.
    binding = {"metadata": made["metadata"] | {"resourceVersion": ""}, "target": {"kind": "Node", "name": "n"}}
    with pytest.raises(ApiError, match="the host's scheduler alone binds pods"):
        await syncer.create_subresource(PODS, name, "binding", binding, space)
    # Bound, a pod is not gone at once.
    await admin.create_subresource(PODS, name, "binding", {"metadata": {"name": name}} | {"target": binding["target"]}, space)
    for grace in (0, 3601):
        with pytest.raises(ApiError, match="a pod is given a second to an hour to end"):
            await syncer.delete(PODS, name, space, grace_seconds=grace)
    for allowed in (None, 3600, 1):
        assert await syncer.delete(PODS, name, space, grace_seconds=allowed)
    await admin.delete(PODS, name, space, grace_seconds=0)
    # One without a node, and one that has ended, an API server ends at once, whatever it was asked for.
    waiting, ended = [(await syncer.create(PODS, named(pod())))["metadata"]["name"] for _ in range(2)]
    assert await syncer.delete(PODS, waiting, space)
    await admin.create_subresource(PODS, ended, "binding", {"metadata": {"name": ended}} | {"target": binding["target"]}, space)
    await admin.patch(PODS, ended, {"status": {"phase": "Succeeded"}}, space, subresource="status")
    assert await syncer.delete(PODS, ended, space, grace_seconds=30)


@pytest.mark.apiserver
async def test_without_a_domain_no_ingress_is_let_through(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    for obj in rendered():
        if obj["metadata"]["name"] == "bulkhead-syncer-ingresses":
            await admin.apply(resource_of(obj["apiVersion"], obj["kind"]), obj)
    async with asyncio.timeout(60):
        while not await refused(syncer, ALLOWED["an ingress"], cleaner=admin):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.1)
        await prepare(admin)
        while await refused(syncer, ALLOWED["an ingress"], cleaner=admin):  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.1)


@pytest.mark.apiserver
async def test_item_35_a_snapshot_is_never_changed_and_its_status_is_the_hosts(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    await syncer.create(VOLUME_SNAPSHOTS, snapshot("kept"))
    patch = ("kept", {"metadata": {"labels": {"app": "db"}}}, "bh-team-a-work")
    assert (await syncer.patch(VOLUME_SNAPSHOTS, *patch))["metadata"]["labels"]["app"] == "db"
    with pytest.raises(ApiError, match="bulkhead-syncer-snapshots"):
        await syncer.patch(VOLUME_SNAPSHOTS, "kept", {"spec": {"volumeSnapshotClassName": "weekly"}}, "bh-team-a-work")
    body = {"status": {"readyToUse": True}}
    with pytest.raises(ApiError, match="every status"):
        await syncer.patch(VOLUME_SNAPSHOTS, "kept", body, "bh-team-a-work", subresource="status")
    await syncer.delete(VOLUME_SNAPSHOTS, "kept", "bh-team-a-work")


@pytest.mark.apiserver
async def test_what_others_noted_on_an_ingress_does_not_stop_the_syncer(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    await syncer.create(INGRESSES, ingress("team-a.x.org", name="noted"))
    notes = {"metadata": {"annotations": {"field.example.org/endpoints": "y"}}}
    await admin.patch(INGRESSES, "noted", notes, "bh-team-a-work")
    await syncer.patch(INGRESSES, "noted", {"spec": ingress("b.team-a.x.org")["spec"]}, "bh-team-a-work")
    notes["metadata"]["annotations"]["field.example.org/endpoints"] = "z"
    with pytest.raises(ApiError, match="no annotation that means something"):
        await syncer.patch(INGRESSES, "noted", notes, "bh-team-a-work")


@pytest.mark.apiserver
async def test_without_the_controllers_word_no_address_is_the_tenants_nodes(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    for address in ("", None):
        await admin.patch(NAMESPACES, "bh-team-a-work", {"metadata": {"annotations": {"bulkhead.dev/node-address": address}}})
        async with asyncio.timeout(60):
            while not await refused(syncer, node_ports(), cleaner=admin):  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.1)
    assert not await refused(syncer, ALLOWED["a service"], cleaner=admin)
    await prepare(admin)
    async with asyncio.timeout(60):
        while await refused(syncer, node_ports(), cleaner=admin):  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.1)


async def noted(admin: Client, key: str, value: str | None) -> None:
    await admin.patch(NAMESPACES, "bh-team-a-work", {"metadata": {"annotations": {f"bulkhead.dev/{key}": value}}})


@pytest.mark.apiserver
async def test_where_the_class_says_so_every_pod_is_in_a_user_namespace(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    await noted(admin, "user-namespaces", "true")
    async with asyncio.timeout(60):
        while not await refused(syncer, pod(), cleaner=admin):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.1)
    assert await refused(syncer, pod(hostUsers=True), cleaner=admin) == "pod: runs in a user namespace of its own"
    assert not await refused(syncer, pod(hostUsers=False), cleaner=admin)
    await noted(admin, "user-namespaces", None)
    async with asyncio.timeout(60):
        while await refused(syncer, pod(hostUsers=True), cleaner=admin):  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.1)


@pytest.mark.apiserver
async def test_root_in_a_user_namespace_is_root_at_level_restricted(syncer: Client, admin: Client) -> None:
    """Pod Security itself lets it through."""
    await in_force(syncer, admin)
    tight = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    profile = {"seccompProfile": {"type": "RuntimeDefault"}}

    def made(own: dict[str, Any], **context: Any) -> dict[str, Any]:
        return pod({"securityContext": tight | own}, securityContext=profile | context, hostUsers=False)

    rootful = {
        "by default": made({}),
        "by the pod": made({}, runAsNonRoot=False),
        "by the container": made({"runAsNonRoot": False}, runAsNonRoot=True),
        "by the container's user": made({"runAsUser": 0}, runAsNonRoot=True),
        "by the pod's user": made({"runAsNonRoot": True, "runAsUser": 1}, runAsUser=0),
    }
    level = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "v1.36"}
    await admin.patch(NAMESPACES, "bh-team-a-work", {"metadata": {"labels": level}})
    try:
        async with asyncio.timeout(60):
            while not await refused(syncer, rootful["by default"], cleaner=admin):  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.1)
        assert [name for name, obj in rootful.items() if not await refused(syncer, obj, cleaner=admin)] == []
        for obj in (made({"runAsNonRoot": True}), made({}, runAsNonRoot=True), made({"runAsUser": 7}, runAsNonRoot=True)):
            assert not await refused(syncer, obj, cleaner=admin)
        for obj in rootful.values():
            await stays_and_gets_no_root_debugger(syncer, admin, obj)
    finally:
        await admin.patch(NAMESPACES, "bh-team-a-work", {"metadata": {"labels": dict.fromkeys(level)}})


async def stays_and_gets_no_root_debugger(syncer: Client, admin: Client, obj: dict[str, Any]) -> None:
    """As root from before its level was raised: labels are written, but no ephemeral container as root comes beside it."""
    made = await admin.create(PODS, named(obj))
    name, space = made["metadata"]["name"], "bh-team-a-work"
    await syncer.patch(PODS, name, {"metadata": {"labels": {"app": "db"}}}, space)
    tight = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": False}
    body = {"spec": {"ephemeralContainers": [debugger(securityContext=tight)]}}
    kind = "application/strategic-merge-patch+json"
    with pytest.raises(ApiError, match="at level restricted not root"):
        await syncer.patch(PODS, name, body, space, subresource="ephemeralcontainers", content_type=kind)
    await admin.delete(PODS, name, space, grace_seconds=0)


@pytest.mark.apiserver
async def test_what_runs_under_a_withdrawn_profile_may_still_be_written(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    name, space = f"x-{secrets.token_hex(4)}", "bh-team-a-work"
    meta = pod()["metadata"] | {"name": name}
    await syncer.create(PODS, pod(securityContext=of_node("audit.json")) | {"metadata": meta})

    async def debug(container: str, context: dict[str, Any]) -> None:
        added = [{"name": container, "image": "debug:1", "envFrom": CLOSED, "securityContext": context}]
        body = {"spec": {"ephemeralContainers": added}}
        kind = "application/strategic-merge-patch+json"
        await syncer.patch(PODS, name, body, space, subresource="ephemeralcontainers", content_type=kind)

    await debug("offered", of_node("audit.json"))
    for context in (of_node("trace.json"), {"appArmorProfile": in_armour("trace")}, {"seccompProfile": {"type": "Unconfined"}}):
        with pytest.raises(ApiError, match="bulkhead-syncer-pods"):
            await debug("other", context)
    await noted(admin, "allowed-seccomp-profiles", None)
    async with asyncio.timeout(60):
        while not await refused(syncer, pod(securityContext=of_node("audit.json")), cleaner=admin):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)
    await syncer.patch(PODS, name, {"metadata": {"labels": {"app": "db"}}}, space)
    await debug("plain", {})
    with pytest.raises(ApiError, match="bulkhead-syncer-pods"):
        await debug("withdrawn", of_node("audit.json"))
    await admin.delete(PODS, name, space, grace_seconds=0)
    await prepare(admin)
    async with asyncio.timeout(60):
        while await refused(syncer, pod(securityContext=of_node("audit.json")), cleaner=admin):  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.1)


@pytest.mark.apiserver
async def test_a_pod_stays_as_large_as_it_is_and_becomes_no_larger_than_a_pod_may_be(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    space, strategic = "bh-team-a-work", "application/strategic-merge-patch+json"
    # From before its class became tighter.
    made = await admin.create(PODS, named(pod(sized("65Gi"))))
    name = made["metadata"]["name"]

    async def resize(memory: str) -> None:
        body = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"memory": memory}}}]}}
        await syncer.patch(PODS, name, body, space, subresource="resize", content_type=strategic)

    await syncer.patch(PODS, name, {"metadata": {"labels": {"app": "db"}}}, space)
    await resize("64Gi")
    with pytest.raises(ApiError, match="requests more than the class of its tenant lets one pod request"):
        await resize("66Gi")
    await admin.delete(PODS, name, space, grace_seconds=0)


@pytest.mark.apiserver
async def test_bounds_of_pods_are_kept_to_the_last_step_of_a_quantity(syncer: Client, admin: Client) -> None:
    """As floats 0.1 three times is more than 0.3, and three times 0.1 too."""
    await in_force(syncer, admin)

    def of(*requests: str, limit: str = "") -> dict[str, Any]:
        listed = [{"name": f"c{at}", "image": "i"} | sized("1Mi", cpu=each) for at, each in enumerate(requests)]
        for each in listed:
            each["resources"]["limits"] |= {"cpu": limit} if limit else {}
        return pod(containers=listed)

    async def held(fine: list[dict[str, Any]], wrong: list[dict[str, Any]], reason: str) -> None:
        async with asyncio.timeout(60):
            while await refused(syncer, wrong[0], cleaner=admin) != reason:  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.1)
        assert [await refused(syncer, obj, cleaner=admin) for obj in fine] == [""] * len(fine)
        assert [await refused(syncer, obj, cleaner=admin) for obj in wrong] == [reason] * len(wrong)

    try:
        await noted(admin, "most-per-pod", "cpu=300m")
        fine, wrong = [("100m", "100m", "100m"), ("50m", "100m", "150m")], [("100m", "100m", "101m"), ("301m",)]
        await held([of(*each) for each in fine], [of(*each) for each in wrong], TOO_LARGE)
        await noted(admin, "most-per-pod", "")
        await noted(admin, "most-limit-request-ratio", "cpu=3")
        exact = [("90m", "270m"), ("100m", "300m"), ("700m", "2100m"), ("1m", "3m")]
        beyond = [("100m", "301m"), ("700m", "2101m"), ("1m", "4m")]
        await held([of(one, limit=most) for one, most in exact], [of(one, limit=most) for one, most in beyond], TOO_FAR)
    finally:
        await prepare(admin)
        async with asyncio.timeout(60):
            while await refused(syncer, of("1", limit="4"), cleaner=admin):  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.1)


@pytest.mark.apiserver
async def test_an_ephemeral_container_is_given_no_device_and_what_runs_is_not_judged_again(
    syncer: Client, admin: Client
) -> None:
    await in_force(syncer, admin)
    space, strategic = "bh-team-a-work", "application/strategic-merge-patch+json"
    for maker, source in ((syncer, GRANTED), (admin, [])):
        name = f"x-{secrets.token_hex(4)}"
        # The second is from before there was a rule.
        await maker.create(PODS, pod({"envFrom": source}) | {"metadata": pod()["metadata"] | {"name": name}})

        async def debug(container: str, name: str = name, **fields: Any) -> None:
            body = {"spec": {"ephemeralContainers": [{"name": container, "image": "debug:1"} | fields]}}
            await syncer.patch(PODS, name, body, space, subresource="ephemeralcontainers", content_type=strategic)

        await syncer.patch(PODS, name, {"metadata": {"labels": {"app": "db"}}}, space)
        await debug("closed", envFrom=CLOSED)
        variable = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        for fields in ({}, {"envFrom": GRANTED}, {"envFrom": [*CLOSED, *GRANTED]}, {"envFrom": CLOSED, "env": variable}):
            with pytest.raises(ApiError, match="device"):
                await debug("other", **fields)
        await debug("closed-too", envFrom=CLOSED)
        await admin.delete(PODS, name, space, grace_seconds=0)


@pytest.mark.apiserver
async def test_without_the_controllers_word_no_pod_is_let_through(policed: ApiServer, admin: Client, syncer: Client) -> None:
    await in_force(syncer, admin)
    space = "bh-untold-work"
    marks = MARKS | {"bulkhead.dev/tenant": "untold"}
    own = pod(labels=marks, priorityClassName=None, nodeSelector=None)
    own["metadata"]["namespace"] = space
    who = policed.config_for("system:serviceaccount:bh-untold:syncer", "system:masters")
    async with Client(who, user_agent="tests", field_manager="syncer") as other:
        await admin.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
        assert await refused(other, own, cleaner=admin) == NOT_NOTED
        meta = {"name": space, "annotations": policy_facts(plane_spec(tenant="untold", workload_priority_class=None))}
        await admin.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        async with asyncio.timeout(60):
            while await refused(other, own, cleaner=admin):  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.1)


@pytest.mark.apiserver
async def test_a_tenants_name_may_contain_the_ending_of_its_namespace(
    policed: ApiServer, admin: Client, syncer: Client
) -> None:
    """`bh-a-workers-work`: the tenant is `a-workers`, and not `aers`."""
    space, name = "bh-a-workers-work", f"x-{secrets.token_hex(4)}"
    await admin.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    who = policed.config_for("system:serviceaccount:bh-a-workers:syncer", "system:masters")
    marks = MARKS | {"bulkhead.dev/tenant": "a-workers"}

    def service(tenant: str) -> dict[str, Any]:
        made = mirrored(
            "Service",
            name,
            labels=marks,
            spec={"ports": [{"port": 80}], "selector": {"bulkhead.dev/tenant": tenant}, "clusterIP": "None"},
        )
        return made | {"metadata": made["metadata"] | {"namespace": space}}

    await in_force(syncer, admin)
    async with Client(who, user_agent="tests", field_manager="syncer") as other:
        assert await refused(other, service("team-b"), cleaner=admin)
        assert not await refused(other, service("a-workers"), cleaner=admin)


@pytest.mark.apiserver
async def test_item_49_the_controller_changes_nothing_of_a_node_but_its_note(policed: ApiServer, admin: Client) -> None:
    name, held, alone = f"n-{secrets.token_hex(4)}", "bulkhead.dev/accelerators-held", "bulkhead.dev/tenant"
    others = {"key": "gpu", "value": "1", "effect": "NoSchedule"}
    who = policed.config_for(CONTROLLER, "system:masters")
    about = {"name": name, "annotations": {"x": "1"}, "labels": {"y": "1"}}
    made = await admin.create(NODES, {"metadata": about, "spec": {"taints": [others]}})
    there = made["spec"]["taints"]
    wrong: list[dict[str, Any]] = [
        {"metadata": {"annotations": {"x": "2"}}},
        {"metadata": {"annotations": {"x": None}}},
        {"metadata": {"annotations": {held: "{}", "z": "1"}}},
        {"metadata": {"labels": {"y": None}}},
        {"metadata": {"finalizers": ["example.com/x"]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [*there, {"key": "x", "effect": "NoSchedule"}]}},
        {"spec": {"taints": None}},
        {"spec": {"taints": [each | {"value": "2"} for each in there]}},
        {"spec": {"taints": there[1:]}},
        {"spec": {"taints": [*there, {"key": alone, "value": "red", "effect": "NoExecute"}]}},
        {"spec": {"taints": [*there, {"key": f"{alone}s", "value": "red", "effect": "NoSchedule"}]}},
        {"spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"]}},
        {"spec": {"providerID": "x://y"}},
        {"metadata": {"labels": {"bulkhead.dev/tenants": "red"}}},
        {"metadata": {"labels": {alone: "red", "y": "2"}}},
    ]
    async with Client(who, user_agent="tests", field_manager="controller") as controller:

        async def no(body: dict[str, Any], subresource: str | None = None) -> bool:
            try:
                await controller.patch(NODES, name, body, subresource=subresource)
            except ApiError as error:
                return "bulkhead-controller-nodes" in str(error)
            return False

        async with asyncio.timeout(60):
            while not await no({"metadata": {"labels": {"in-force": secrets.token_hex(4)}}}):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.1)
        assert [body for body in wrong if not await no(body)] == []
        assert await no({"status": {"allocatable": {"nvidia.com/gpu": "64"}}}, "status")
        for text in ('{"nvidia.com/gpu":5}', '{"nvidia.com/gpu":6}', None):
            assert not await no({"metadata": {"annotations": {held: text}}})
        for tenant in ("red", "blue", None):
            taint = [{"key": alone, "value": tenant, "effect": "NoSchedule"}] if tenant else []
            assert not await no({"metadata": {"labels": {alone: tenant}}, "spec": {"taints": [*there, *taint]}})
        for write in (controller.delete(NODES, name), controller.create(NODES, {"metadata": {"name": f"{name}-b"}})):
            with pytest.raises(ApiError, match="bulkhead-controller-nodes"):
                await write
    await admin.delete(NODES, name)


@pytest.mark.apiserver
async def test_conditions_of_a_pod_that_are_not_kubernetes_own_are_the_syncers(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    gate = [{"conditionType": "example.org/gate"}]
    made = await admin.create(PODS, named(pod(readinessGates=gate)))
    name = made["metadata"]["name"]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {
        "phase": "Running", "podIP": "10.244.0.5", "podIPs": [{"ip": "10.244.0.5"}], "hostIP": "172.31.255.1",
        "startTime": "2026-01-01T00:00:00Z", "conditions": [ready],
        "containerStatuses": [{"name": "main", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": {}}],
    }  # fmt: skip
    await admin.patch(PODS, name, {"status": status}, "bh-team-a-work", subresource="status")
    body = {"status": {"conditions": [ready, {"type": "example.org/gate", "status": "True"}]}}
    await syncer.patch(PODS, name, body, "bh-team-a-work", subresource="status")
    body = {"status": {"conditions": [ready | {"status": "False"}]}}
    with pytest.raises(ApiError, match="of its conditions none is written"):
        await syncer.patch(PODS, name, body, "bh-team-a-work", subresource="status")
    await admin.delete(PODS, name, "bh-team-a-work", grace_seconds=0)


@pytest.mark.apiserver
async def test_endpoints_can_always_be_withdrawn(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    made = await syncer.create(ENDPOINT_SLICES, named(endpoints("10.244.0.5")))
    await syncer.patch(ENDPOINT_SLICES, made["metadata"]["name"], {"endpoints": []}, "bh-team-a-work")
    await syncer.delete(ENDPOINT_SLICES, made["metadata"]["name"], "bh-team-a-work")


@pytest.mark.apiserver
async def test_a_claim_from_before_its_class_became_tighter_is_bound_and_changed(admin: Client, syncer: Client) -> None:
    await in_force(syncer, admin)
    spec = replace(TEAM_A, most_per_claim="1Gi")
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "ordinary"}}
    await admin.apply(kinds.STORAGE_CLASSES, storage | {"provisioner": "example.org/disk", "allowVolumeExpansion": True})
    made = await syncer.create(kinds.PERSISTENT_VOLUME_CLAIMS, named(of_size("10Gi")))
    name, space = made["metadata"]["name"], "bh-team-a-work"
    limits = limit_range(spec)
    limits["metadata"] = {"name": limits["metadata"]["name"], "namespace": space}
    await admin.apply(kinds.LIMIT_RANGES, limits)
    await noted(admin, "most-per-claim", policy_facts(spec)["bulkhead.dev/most-per-claim"])
    async with asyncio.timeout(60):
        while not await refused(syncer, of_size("2Gi"), cleaner=admin):  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.1)
    try:
        await syncer.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"metadata": {"labels": {"app": "db"}}}, space)
        chosen = {"volume.kubernetes.io/selected-node": "n1"}
        await admin.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"metadata": {"annotations": chosen}}, space)
        await admin.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"spec": {"volumeName": "v"}}, space)
        status = {"phase": "Bound", "capacity": {"storage": "10Gi"}}
        await admin.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"status": status}, space, subresource="status")
        await syncer.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"metadata": {"labels": {"app": "web"}}}, space)
        grown = {"spec": {"resources": {"requests": {"storage": "11Gi"}}}}
        with pytest.raises(ApiError, match="claim: no larger than the class of its tenant lets one claim be"):
            await syncer.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, grown, space)
    finally:
        await admin.delete(kinds.STORAGE_CLASSES, "ordinary")
        await admin.delete(kinds.LIMIT_RANGES, limits["metadata"]["name"], space)
        await admin.delete(kinds.PERSISTENT_VOLUME_CLAIMS, name, space)
        await prepare(admin)
        async with asyncio.timeout(60):
            while await refused(syncer, of_size("2Gi"), cleaner=admin):  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.1)


@pytest.mark.apiserver
async def test_a_pod_has_thousands_of_variables_and_is_still_judged(admin: Client, syncer: Client) -> None:
    """Those of 200 Services in each of twelve containers: a policy that costs too much refuses what it should let through."""
    await in_force(syncer, admin)
    services = [{"name": f"SERVICE_OF_TEAM_A_{at}_PORT_8080_TCP_PROTO", "value": "tcp"} for at in range(200 * 7)]
    listed = [{"name": f"c{at}", "image": "i", "envFrom": CLOSED, "env": services} for at in range(12)]
    assert not await refused(syncer, pod(containers=listed), cleaner=admin)
    # More than the syncer writes into one pod, by their bytes.
    short = [{"name": "c", "image": "i", "envFrom": CLOSED, "env": [{"name": f"A{at}"} for at in range(256 * 1024 // 16)]}]
    assert not await refused(syncer, pod(containers=short), cleaner=admin)
    listed[-1]["env"] = [*services, {"name": " NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    said = await refused(syncer, pod(containers=listed), cleaner=admin)
    assert said == "pod: no variable by which a container runtime hands out devices"


@pytest.mark.apiserver
async def test_without_a_list_a_claim_is_of_the_hosts_default_class(policed: ApiServer, admin: Client, syncer: Client) -> None:
    await in_force(syncer, admin)
    space = "bh-plain-work"
    facts = policy_facts(plane_spec(tenant="plain"))
    await admin.apply(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space, "annotations": facts}})
    plain = {DEFAULT_STORAGE_CLASS: "false", BETA_DEFAULT_STORAGE_CLASS: "false"}
    classes = {"ordinary": {DEFAULT_STORAGE_CLASS: "true"}, "older": {BETA_DEFAULT_STORAGE_CLASS: "true"}, "of-the-host": plain}
    for name, notes in classes.items():
        meta = {"name": name, "annotations": notes}
        made = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": meta, "provisioner": "example.org/disk"}
        await admin.apply(kinds.STORAGE_CLASSES, made)

    def own(name: str | None) -> dict[str, Any]:
        made = named(claim(storageClassName=name))
        return made | {"metadata": made["metadata"] | {"namespace": space, "labels": MARKS | {"bulkhead.dev/tenant": "plain"}}}

    who = policed.config_for("system:serviceaccount:bh-plain:syncer", "system:masters")
    async with Client(who, user_agent="tests", field_manager="syncer") as other:
        async with asyncio.timeout(60):
            while not await refused(other, own("of-the-host"), cleaner=admin):  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.1)
        assert await refused(other, own("of-the-host"), cleaner=admin) == OF_OTHER_FACTS[0]
        assert await refused(other, own(""), cleaner=admin) == "claim: of a StorageClass that is offered to its tenant"
        assert not await refused(other, own("ordinary"), cleaner=admin)
        assert not await refused(other, own("older"), cleaner=admin)
        assert not await refused(other, own(None), cleaner=admin)
        kept = await admin.create(kinds.PERSISTENT_VOLUME_CLAIMS, own("of-the-host"))
        name = kept["metadata"]["name"]
        # As the host's binder does; then the syncer writes what else may change.
        await admin.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"spec": {"volumeName": "v"}}, space)
        await other.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, {"metadata": {"labels": {"app": "db"}}}, space)
        await admin.delete(kinds.PERSISTENT_VOLUME_CLAIMS, name, space)
    for name in classes:
        await admin.delete(kinds.STORAGE_CLASSES, name)
