"""The chart's admission policies on a real API server: what a syncer may say of a pod and do to it."""

import contextlib
import secrets
import time
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, Timeout, Unavailable
from bulkhead.kube.resources import (
    NAMESPACES,
    PODS,
)
from syncer.translate.diff import STRATEGIC
from syncer.translate.kinds import podstatus
from tests.chart.admission_objects import (
    CLOSED,
    GRANTED,
    debugger,
    in_armour,
    of_node,
    pod,
    sized,
)
from tests.chart.policed import (
    in_force,
    named,
    noted,
    prepare,
    refused,
    until_let_in,
    until_refused,
)
from tests.kit.known import IN_FORCE
from tests.kit.syncerbed import until

TOO_LARGE = "pod: requests more than its tenant's class allows one pod"
# An API server, and our client, give a request half a minute. A pod of thousands of variables takes a tenth of the time without
# policies, so a machine on which that takes a twentieth of it cannot tell whether they are too expensive.
ANSWER_SECONDS = 30.0
DEARER = 20.0
TOO_FAR = "pod: the ratio of a limit to its request exceeds what its tenant's class allows"


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
        with pytest.raises(ApiError, match="a pod is deleted with a grace period of 1 second to what its"):
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
async def test_where_the_class_says_so_every_pod_is_in_a_user_namespace(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    await noted(admin, "user-namespaces", "true")
    await until_refused(syncer, pod(), admin)
    assert await refused(syncer, pod(hostUsers=True), cleaner=admin) == "pod: runs in a user namespace of its own"
    assert not await refused(syncer, pod(hostUsers=False), cleaner=admin)
    await noted(admin, "user-namespaces", None)
    await until_let_in(syncer, pod(hostUsers=True), admin)


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
        await until_refused(syncer, rootful["by default"], admin)
        said = {name: await refused(syncer, obj, cleaner=admin) for name, obj in rootful.items()}
        assert said == dict.fromkeys(rootful, "pod: at level restricted it must not run as root, not even in a user namespace")
        for obj in (made({"runAsNonRoot": True}), made({}, runAsNonRoot=True), made({"runAsUser": 7}, runAsNonRoot=True)):
            assert not await refused(syncer, obj, cleaner=admin)
        for obj in rootful.values():
            await stays_and_gets_no_root_debugger(syncer, admin, obj)
    finally:
        await admin.patch(NAMESPACES, "bh-team-a-work", {"metadata": {"labels": dict.fromkeys(level)}})

        async def usual() -> bool:
            try:
                return not await refused(syncer, pod(), cleaner=admin)
            except ApiError:  # by Pod Security
                return False

        await until(usual, "the usual level again", IN_FORCE)


async def stays_and_gets_no_root_debugger(syncer: Client, admin: Client, obj: dict[str, Any]) -> None:
    """As root from before its level was raised: labels are written, but no ephemeral container as root comes beside it."""
    made = await admin.create(PODS, named(obj))
    name, space = made["metadata"]["name"], "bh-team-a-work"
    await syncer.patch(PODS, name, {"metadata": {"labels": {"app": "db"}}}, space)
    tight = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": False}
    body = {"spec": {"ephemeralContainers": [debugger(securityContext=tight)]}}
    with pytest.raises(ApiError, match="at level restricted it must not run as root"):
        await syncer.patch(PODS, name, body, space, subresource="ephemeralcontainers", content_type=STRATEGIC)
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
        await syncer.patch(PODS, name, body, space, subresource="ephemeralcontainers", content_type=STRATEGIC)

    await debug("offered", of_node("audit.json"))
    for context in (of_node("trace.json"), {"appArmorProfile": in_armour("trace")}, {"seccompProfile": {"type": "Unconfined"}}):
        with pytest.raises(ApiError, match="bulkhead-syncer-pods"):
            await debug("other", context)
    await noted(admin, "allowed-seccomp-profiles", None)
    await until_refused(syncer, pod(securityContext=of_node("audit.json")), admin)
    await syncer.patch(PODS, name, {"metadata": {"labels": {"app": "db"}}}, space)
    await debug("plain", {})
    with pytest.raises(ApiError, match="bulkhead-syncer-pods"):
        await debug("withdrawn", of_node("audit.json"))
    await admin.delete(PODS, name, space, grace_seconds=0)
    await prepare(admin)
    await until_let_in(syncer, pod(securityContext=of_node("audit.json")), admin)


@pytest.mark.apiserver
async def test_a_pod_stays_as_large_as_it_is_and_becomes_no_larger_than_a_pod_may_be(syncer: Client, admin: Client) -> None:
    await in_force(syncer, admin)
    space = "bh-team-a-work"
    # From before its class became tighter.
    made = await admin.create(PODS, named(pod(sized("65Gi"))))
    name = made["metadata"]["name"]

    async def resize(memory: str) -> None:
        body = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"memory": memory}}}]}}
        await syncer.patch(PODS, name, body, space, subresource="resize", content_type=STRATEGIC)

    await syncer.patch(PODS, name, {"metadata": {"labels": {"app": "db"}}}, space)
    await resize("64Gi")
    with pytest.raises(ApiError, match=TOO_LARGE):
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
        await until_refused(syncer, wrong[0], admin, reason)
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
        await until_let_in(syncer, of("1", limit="4"), admin)


@pytest.mark.apiserver
async def test_an_ephemeral_container_is_given_no_device_and_what_runs_is_not_judged_again(
    syncer: Client, admin: Client
) -> None:
    await in_force(syncer, admin)
    space = "bh-team-a-work"
    for maker, source in ((syncer, GRANTED), (admin, [])):
        name = f"x-{secrets.token_hex(4)}"
        # The second is from before there was a rule.
        await maker.create(PODS, pod({"envFrom": source}) | {"metadata": pod()["metadata"] | {"name": name}})

        async def debug(container: str, name: str = name, **fields: Any) -> None:
            body = {"spec": {"ephemeralContainers": [{"name": container, "image": "debug:1"} | fields]}}
            await syncer.patch(PODS, name, body, space, subresource="ephemeralcontainers", content_type=STRATEGIC)

        await syncer.patch(PODS, name, {"metadata": {"labels": {"app": "db"}}}, space)
        await debug("closed", envFrom=CLOSED)
        variable = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        for fields in ({}, {"envFrom": GRANTED}, {"envFrom": [*CLOSED, *GRANTED]}, {"envFrom": CLOSED, "env": variable}):
            with pytest.raises(ApiError, match="device"):
                await debug("other", **fields)
        await debug("closed-too", envFrom=CLOSED)
        await admin.delete(PODS, name, space, grace_seconds=0)


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
    texts = {key: "é" * most for key, most in podstatus.MOST_OF_CONDITION.items()}
    closed = {"type": "example.org/gate", "status": "False"}
    body = {"status": {"conditions": [ready, closed | {"message": texts["message"], "reason": "r" * len(texts["reason"])}]}}
    await syncer.patch(PODS, name, body, "bh-team-a-work", subresource="status")
    body = {"status": {"conditions": [ready | {"status": "False"}]}}
    with pytest.raises(ApiError, match="only the conditions of its readiness gates"):
        await syncer.patch(PODS, name, body, "bh-team-a-work", subresource="status")
    await admin.delete(PODS, name, "bh-team-a-work", grace_seconds=0)


async def judged(syncer: Client, admin: Client, obj: Obj) -> str:
    """What our policies say of a pod; skips where the machine, and not they, keep the API server from an answer in its time."""
    try:
        return await refused(syncer, obj, cleaner=admin)
    except (Timeout, Unavailable):
        began = time.monotonic()
        with contextlib.suppress(Timeout, Unavailable):
            await admin.create(PODS, named(obj) | {"metadata": {"name": f"control-{secrets.token_hex(4)}"}}, "default")
        without = time.monotonic() - began
        if without * DEARER < ANSWER_SECONDS:
            raise
        pytest.skip(f"the machine is too slow to tell: also without a policy the API server took {without:.1f} s")


@pytest.mark.apiserver
@pytest.mark.charts
async def test_a_pod_has_thousands_of_variables_and_is_still_judged(admin: Client, syncer: Client) -> None:
    """Those of 200 Services in each of twelve containers: a policy that costs too much refuses what it should let through."""
    await in_force(syncer, admin)
    services = [{"name": f"SERVICE_OF_TEAM_A_{at}_PORT_8080_TCP_PROTO", "value": "tcp"} for at in range(200 * 7)]
    listed = [{"name": f"c{at}", "image": "i", "envFrom": CLOSED, "env": services} for at in range(12)]
    assert not await judged(syncer, admin, pod(containers=listed))
    # More than the syncer writes into one pod, by their bytes.
    short = [{"name": "c", "image": "i", "envFrom": CLOSED, "env": [{"name": f"A{at}"} for at in range(256 * 1024 // 16)]}]
    assert not await judged(syncer, admin, pod(containers=short))
    listed[-1]["env"] = [*services, {"name": " NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    said = await judged(syncer, admin, pod(containers=listed))
    assert said == "pod: no variable by which a container runtime hands out devices"
