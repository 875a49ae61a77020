"""The ledger's gate on a host with the policies: which client may remove it, and what the controller may do with pods."""

import secrets
from dataclasses import dataclass
from typing import Any

import pytest

from bulkhead.api import ledger
from bulkhead.api.labels import ENDS
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import MERGE_PATCH, STRATEGIC_PATCH, Client
from bulkhead.kube.errors import ApiError, Forbidden, KubeError
from controller.plane.rights import LEDGER_ROLE
from tests.chart.admission_ledger import annotated
from tests.chart.controller.requests import MARKS, binding
from tests.kit.helmchart import rendered
from tests.kit.servers import ApiServer
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.charts]
WORK = "bh-team-a-work"
JSON_PATCH = "application/json-patch+json"
GATE: Obj = {"name": ledger.GATE}
MIRRORED = MARKS | {"bulkhead.dev/managed-by": "syncer", "bulkhead.dev/virtual-uid": "0"}
LIFTED: Obj = {"spec": {"schedulingGates": [GATE | {"$patch": "delete"}]}}
PINNED: Obj = {"spec": LIFTED["spec"] | {"nodeSelector": {"kubernetes.io/hostname": "node-1"}}}
CONTAINER = {"name": "main", "image": "example.org/i:1"}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}
TAKEN_BACK = annotated(ledger.RECLAIM, '{"by":"2026-11-24T12:00:00.000Z"}')


async def pod(admin: Client, place: str = WORK, labels: Obj | None = None, node: str = "", **more: Any) -> str:
    """A pod that waits at the gate, and at one of its tenant; with a node it waits at none."""
    spec = {
        "containers": [CONTAINER],
        "nodeSelector": {"pool": "shared"},
        "schedulingGates": [] if node else [{"name": "of-the-tenant"}, GATE],
        "terminationGracePeriodSeconds": 5,
        **({"nodeName": node} if node else {}),
    }
    meta = {"name": f"x-{secrets.token_hex(4)}", "namespace": place, "labels": MIRRORED if labels is None else labels, **more}
    made = await admin.create(kinds.PODS, {"metadata": meta, "spec": spec})
    return str(made["metadata"]["name"])


@pytest.fixture
async def judged(mighty: Client, admin: Client) -> Client:
    """The controller with every right, once the policies of pods are in force."""

    async def bites() -> bool:
        name = await pod(admin)
        try:
            await mighty.patch(kinds.PODS, name, {"metadata": {"labels": {"a": "b"}}}, WORK)
        except ApiError:
            return True
        finally:
            await admin.delete(kinds.PODS, name, WORK, grace_seconds=0)
        return False

    await until(bites, "the policies of pods in force")
    return mighty


async def said(call: Any) -> str:
    """What a policy of ours says to a call; empty where none refuses it."""
    try:
        await call
    except ApiError as error:
        if "ValidatingAdmissionPolicy 'bulkhead-" not in str(error):
            raise
        return str(error).partition("denied request: ")[2]
    return ""


@dataclass(frozen=True)
class Patch:
    body: Any
    words: str = ""
    subresource: str | None = None
    content_type: str = STRATEGIC_PATCH
    before: Obj | None = None  # of the pod's metadata


PATCHES: dict[str, Patch] = {
    "its gate away": Patch(LIFTED),
    "admitted": Patch(PINNED | {"metadata": {"annotations": {ledger.ADMITTED: "{}", ledger.VERDICT: None}}}),
    "a verdict": Patch(annotated(ledger.VERDICT, "{}")),
    "a verdict no more": Patch(annotated(ledger.VERDICT, None), before={"annotations": {ledger.VERDICT: "{}"}}),
    "taken back": Patch(TAKEN_BACK),
    "in the way": Patch({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}}, subresource="status"),
    "in the way no more": Patch(
        {"status": {"conditions": [{"type": "DisruptionTarget", "status": "False"}]}}, subresource="status"
    ),
    "spared": Patch(annotated(ledger.RECLAIM, None), before={"annotations": {ledger.RECLAIM: "{}"}}),
    "the tenant's gate away": Patch(
        {"spec": {"schedulingGates": [{"name": "of-the-tenant", "$patch": "delete"}]}}, "takes no gate away but its own"
    ),
    "both gates away": Patch({"spec": {"schedulingGates": None}}, "takes no gate away but its own", content_type=MERGE_PATCH),
    "one more label of nodes": Patch({"spec": {"nodeSelector": {"gpu": "h100"}}}, "pins a pod to a node"),
    "another image": Patch({"spec": {"containers": [CONTAINER | {"image": "example.org/other"}]}}, "its own gate and the node"),
    "another taint": Patch({"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}, "its own gate and the node"),
    "an end by a deadline": Patch({"spec": {"activeDeadlineSeconds": 1}}, "its own gate and the node"),
    "another affinity": Patch(
        {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}}},
        "its own gate and the node",
    ),
    "another label": Patch({"metadata": {"labels": {"app": "db"}}}, "notes on a tenant's pod"),
    "a gang": Patch(annotated(ledger.GANG, "other"), "notes on a tenant's pod"),
    "a finalizer": Patch({"metadata": {"finalizers": ["example.org/hold"]}}, "notes on a tenant's pod"),
    "another owner": Patch({"metadata": {"ownerReferences": [OWNER]}}, "notes on a tenant's pod"),
    "a label by its status": Patch({"metadata": {"labels": {"app": "db"}}}, "notes on a tenant's pod", "status"),
    "an end": Patch({"status": {"phase": "Succeeded"}}, "the condition DisruptionTarget alone", "status"),
    "a pod that is ready": Patch(
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "the condition DisruptionTarget alone", "status"
    ),
    "another's pod": Patch(LIFTED, "that a syncer has mirrored", before={"labels": MARKS}),
    "another tenant's pod": Patch(
        LIFTED, "that a syncer has mirrored", before={"labels": MIRRORED | {"bulkhead.dev/tenant": "team-b"}}
    ),
}  # fmt: skip


async def test_the_controller_admits_notes_and_changes_nothing_else(judged: Client, admin: Client) -> None:
    found = {}
    for name, patch in PATCHES.items():
        made = await pod(admin, **({"labels": None} | (patch.before or {})))
        call = judged.patch(kinds.PODS, made, patch.body, WORK, content_type=patch.content_type, subresource=patch.subresource)
        found[name] = await said(call)
        await admin.patch(kinds.PODS, made, {"metadata": {"finalizers": None}}, WORK)
        await admin.delete(kinds.PODS, made, WORK, grace_seconds=0)
    assert {name: words for name, words in found.items() if PATCHES[name].words not in words or not PATCHES[name].words} == {
        name: "" for name, patch in PATCHES.items() if not patch.words
    }


def test_each_rule_about_tenants_pods_refuses_something_here() -> None:
    of_deletions = {"ends a pod that has a node only once"}
    of_evictions = {"evicts pods in tenants' work namespaces and members of planes only", "evicts a pod by its UID"}
    words = {patch.words for patch in PATCHES.values() if patch.words} | of_deletions | of_evictions
    rules = [
        rule["message"]
        for obj in rendered()
        if obj["kind"] == "ValidatingAdmissionPolicy"
        and obj["metadata"]["name"] in {"bulkhead-controller-pods", "bulkhead-controller-evictions"}
        for rule in obj["spec"]["validations"]
    ]
    assert [rule for rule in rules if not any(each in rule for each in words)] == []


async def test_the_controller_ends_what_never_ran_and_what_it_has_noted(judged: Client, admin: Client) -> None:
    assert not await said(judged.delete(kinds.PODS, await pod(admin), WORK))
    running = await pod(admin, node="node-1")
    refusal = await said(judged.delete(kinds.PODS, running, WORK))
    assert refusal == "controller: ends a pod that has a node only once it has noted on it that it is taken back"
    await judged.patch(kinds.PODS, running, TAKEN_BACK, WORK, content_type=STRATEGIC_PATCH)
    assert not await said(judged.delete(kinds.PODS, running, WORK, grace_seconds=0))
    somebodys = await pod(admin, labels=dict(MARKS))
    assert "that a syncer has mirrored" in await said(judged.delete(kinds.PODS, somebodys, WORK))
    await admin.delete(kinds.PODS, somebodys, WORK, grace_seconds=0)


async def test_while_a_tenant_is_taken_down_all_its_pods_are(judged: Client, admin: Client) -> None:
    for labels, words in ((MIRRORED, "ends a pod that has a node only once"), (MARKS, "that a syncer has mirrored")):
        name = await pod(admin, labels=dict(labels), node="node-1")
        assert words in await said(judged.delete(kinds.PODS, name, WORK))
        await admin.patch(kinds.NAMESPACES, WORK, {"metadata": {"annotations": {ENDS: "true"}}})

        async def deleted(name: str = name) -> bool:
            return not await said(judged.delete(kinds.PODS, name, WORK, grace_seconds=0))

        await until(deleted, "the mark to be seen")
        await admin.patch(kinds.NAMESPACES, WORK, {"metadata": {"annotations": {ENDS: None}}})

        async def back() -> bool:
            again = await pod(admin, node="node-1")
            refused = await said(judged.delete(kinds.PODS, again, WORK, grace_seconds=0))
            if refused:
                await admin.delete(kinds.PODS, again, WORK, grace_seconds=0)
            return bool(refused)

        await until(back, "the mark to be gone")


def eviction(name: str, place: str, **preconditions: str) -> Obj:
    made: Obj = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": place}}
    return made | ({"deleteOptions": {"preconditions": preconditions}} if preconditions else {})


async def test_the_controller_evicts_one_pod_that_it_names_in_work_namespaces_and_members_of_planes(
    judged: Client, admin: Client
) -> None:
    other = "evicts pods in tenants' work namespaces and members of planes only"
    for place, named, words in (
        (WORK, "", ""),
        ("bh-team-a", "plane-0", ""),
        ("bh-team-a", "plane-2", ""),
        ("bh-team-a", "plane-3", other),
        ("bh-team-a", "", other),
        ("somebodys", "plane-0", other),
        ("somebodys", "", other),
    ):
        tight = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        own = {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
        meta = {"name": named or f"x-{secrets.token_hex(4)}", "namespace": place, "labels": MIRRORED}
        spec = {"containers": [CONTAINER | own], "securityContext": tight, "terminationGracePeriodSeconds": 0}
        made = await admin.create(kinds.PODS, {"metadata": meta, "spec": spec})
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        unnamed = await said(judged.create_subresource(kinds.PODS, name, "eviction", eviction(name, place), place))
        by_uid = "controller: evicts a pod by its UID"
        assert unnamed.startswith((by_uid, f"controller: {words}") if words else by_uid), unnamed
        call = judged.create_subresource(kinds.PODS, name, "eviction", eviction(name, place, uid=uid), place)
        assert await said(call) == (words and f"controller: {words}")
        if words:
            await admin.delete(kinds.PODS, name, place, grace_seconds=0)


WAYS: dict[str, tuple[str, Any]] = {
    "a merge patch": (MERGE_PATCH, {"spec": {"schedulingGates": []}}),
    "a strategic patch": (STRATEGIC_PATCH, LIFTED),
    "a JSON patch": (JSON_PATCH, [{"op": "remove", "path": "/spec/schedulingGates"}]),
    "an apply": ("application/apply-patch+yaml", None),
    "a replacement": ("", None),
}


@pytest.mark.parametrize("who", ["system:admin", "system:kube-controller-manager", "system:serviceaccount:kube-system:x"])
async def test_only_the_ledger_removes_the_gate_by_any_way(who: str, judged: Client, server: ApiServer, admin: Client) -> None:
    """Not even who may do everything: a pod without its gate would have accelerators that are another's."""
    async with Client(server.config_for(who, "system:masters"), user_agent="tests", field_manager="tests") as other:
        for way, (content_type, body) in WAYS.items():
            if way == "an apply":
                name, meta = "applied", {"name": "applied", "namespace": WORK, "labels": MIRRORED}
                await other.apply(
                    kinds.PODS, {"metadata": meta, "spec": {"containers": [CONTAINER], "schedulingGates": [GATE]}}
                )
                call = other.apply(kinds.PODS, {"metadata": meta, "spec": {"containers": [CONTAINER]}})
            elif way == "a replacement":
                there = await other.get(kinds.PODS, name := await pod(admin), WORK)
                call = other.replace(kinds.PODS, there | {"spec": there["spec"] | {"schedulingGates": []}})
            else:
                call = other.patch(kinds.PODS, name := await pod(admin), body, WORK, content_type=content_type)
            assert "is taken away by Bulkhead's controller alone" in await said(call), way
            # What else they do to it, they do.
            assert not await said(other.patch(kinds.PODS, name, {"metadata": {"labels": {"a": "b"}}}, WORK))
            assert not await said(other.delete(kinds.PODS, name, WORK, grace_seconds=0))
        # The policy does not care about a gate of the same name elsewhere.
        elsewhere = await pod(admin, "somebodys")
        assert not await said(other.patch(kinds.PODS, elsewhere, {"spec": {"schedulingGates": []}}, "somebodys"))
        await admin.delete(kinds.PODS, elsewhere, "somebodys", grace_seconds=0)


async def test_it_admits_by_its_own_rights_where_it_has_bound_them(limited: Client, judged: Client, admin: Client) -> None:
    own = {"subjects": [{"kind": "ServiceAccount", "name": "bulkhead-controller", "namespace": "bulkhead-system"}]}
    name, body = await pod(admin), PINNED
    with pytest.raises(Forbidden, match="cannot patch resource"):
        await limited.patch(kinds.PODS, name, body, WORK, content_type=STRATEGIC_PATCH)
    await limited.apply(kinds.ROLE_BINDINGS, binding(LEDGER_ROLE, WORK, name="ledger", **own))

    async def may() -> bool:
        try:
            await limited.patch(kinds.PODS, name, body, WORK, content_type=STRATEGIC_PATCH)
        except KubeError:
            return False
        return True

    await until(may, "the right to be known")
    there = await admin.get(kinds.PODS, name, WORK)
    assert [gate["name"] for gate in there["spec"]["schedulingGates"]] == ["of-the-tenant"]
    assert there["spec"]["nodeSelector"] == {"pool": "shared", "kubernetes.io/hostname": "node-1"}
    await limited.patch(kinds.PODS, name, PATCHES["in the way"].body, WORK, content_type=STRATEGIC_PATCH, subresource="status")
    await limited.create_subresource(kinds.PODS, name, "eviction", eviction(name, WORK, uid=there["metadata"]["uid"]), WORK)
    with pytest.raises(Forbidden, match="cannot create resource"):
        await limited.create(kinds.PODS, {"metadata": {"name": "y"}, "spec": {"containers": [CONTAINER]}}, WORK)
    with pytest.raises(Forbidden, match="cannot patch resource"):
        await limited.patch(kinds.PODS, "x", body, "somebodys", content_type=STRATEGIC_PATCH)
    await admin.delete(kinds.ROLE_BINDINGS, "ledger", WORK)
