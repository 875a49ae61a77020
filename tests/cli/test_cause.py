"""The first cause of a tenant's state: golden cases. Pure, no cost but for one command on a real API server."""

from typing import Any

import pytest

from bulkhead.api import names
from bulkhead.api.conditions import Reason
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from tests.kit.commandline import Cli, Controller
from workstation.cli.tenant.cause import first_cause
from workstation.cli.trouble import Trouble, troubles

RUNS = [{"status": {"readyReplicas": 1}}]
ELSEWHERE = {"metadata": {"namespace": "gpu-cloud"}, "status": {}}
SINCE = "2026-11-26T10:00:00Z"


def condition(type_: str, status: str, reason: str, message: str = "m") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": SINCE}


def tenant(*conditions: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "red", "generation": 1, **meta}, "status": {"conditions": list(conditions)}}


READY = condition("Ready", "True", "Ready")
REFUSED = condition("Ready", "False", "OutOfBounds", "65 > 64")
WAITS = condition("Ready", "False", "WaitingForPlane")


@pytest.mark.parametrize(
    ("found", "controllers", "around", "reason", "what", "step"),
    [
        (tenant(READY), RUNS, [], "Ready", "nothing is wrong", ""),
        (tenant(READY), [], [], "Ready", "nothing is wrong", ""),
        (tenant(), RUNS, [], "NotReconciled", "has not reconciled", "wait"),
        (tenant(), [], [], "ControllerDown", "no pod of the controller is ready", "bulkhead-system"),
        (tenant(READY | {"observedGeneration": 0}), [], [], "ControllerDown", "no pod", "bulkhead-system"),
        (tenant(), [ELSEWHERE], [], "ControllerDown", "no pod", "kubectl -n gpu-cloud describe"),
        (tenant(), [ELSEWHERE, *RUNS], [], "NotReconciled", "has not reconciled", "kubectl -n gpu-cloud logs"),
        # A user who may not read the controller's Deployments learns that, and not that it is down.
        (tenant(), None, [], "ControllerUnknown", "the controller's Deployments could not be read", "ask an admin"),
        (tenant(READY | {"observedGeneration": 0}), None, [], "ControllerUnknown", "not been reconciled", "bulkhead-system"),
        (tenant(READY), None, [], "Ready", "nothing is wrong", ""),
        (tenant(REFUSED), None, [], "OutOfBounds", "65 > 64", "kubectl edit tenant red"),
        (tenant(READY, deletionTimestamp=SINCE), [], [], "Terminating", "it is being deleted: m", "tenant describe red"),
        (
            tenant(condition("Ready", "False", "TeardownBlocked", "job x has a finalizer"), deletionTimestamp=SINCE),
            RUNS,
            [],
            "TeardownBlocked",
            "job x has a finalizer",
            "finalizer whose controller",
        ),
        (
            tenant(condition("Ready", "False", "UnknownClass", "no TenantClass is named 'gone'")),
            RUNS,
            [],
            "UnknownClass",
            "'gone'",
            "create the class again",
        ),
        # What befell the plane explains what its pods say.
        *(
            (
                tenant(condition("Ready", "False", reason), condition("PlaneReady", "False", reason, "the volume is empty")),
                RUNS,
                [Trouble("pod plane-0, container kube-apiserver", "CrashLoopBackOff", "a")],
                reason,
                "PlaneReady: the volume is empty",
                step,
            )
            for reason, step in (("DataLost", "accept-data red"), ("Restoring", "restore"), ("NodeLost", "row NodeLost"))
        ),
        (
            tenant(condition("Ready", "False", "OutOfBounds", "65 > 64")),
            RUNS,
            [],
            "OutOfBounds",
            "65 > 64",
            "kubectl edit tenant red",
        ),
        (
            tenant(WAITS),
            RUNS,
            [
                Trouble("pod plane-0, container kube-apiserver", "CrashLoopBackOff", "a"),
                Trouble("pod plane-0, container etcd", "CrashLoopBackOff", "b"),
            ],
            "CrashLoopBackOff",
            "pod plane-0, container etcd: CrashLoopBackOff: b",
            "kubectl -n bh-red logs plane-0 -c etcd --previous --tail=50",
        ),
        (
            tenant(WAITS),
            RUNS,
            [
                Trouble("pod plane-0, container etcd", "ImagePullBackOff", "a"),
                Trouble("pod plane-0", "FailedScheduling", "0/3 nodes"),
            ],
            "FailedScheduling",
            "pod plane-0: FailedScheduling: 0/3 nodes",
            "free room on a node",
        ),
        # A pod that crashes beside a tenant that is ready, such as one of three members, is its condition's matter.
        (
            tenant(READY, condition("PlaneReady", "True", "MembersDown")),
            RUNS,
            [Trouble("pod plane-1, container etcd", "CrashLoopBackOff", "")],
            "Ready",
            "nothing is wrong",
            "",
        ),
        # Degraded is True where something is wrong: the plane serves, and Ready says nothing of it.
        *(
            (
                tenant(READY, condition("PlaneReady", "True", "Ready"), condition("Degraded", "True", reason, "plane-1")),
                RUNS,
                [],
                reason,
                "Degraded: plane-1",
                f"row {reason}",
            )
            for reason in ("MembersDown", "MemberLost", "Corrupt")
        ),
        (tenant(READY, condition("Degraded", "False", "Ready")), RUNS, [], "Ready", "nothing is wrong", ""),
        (
            tenant(READY, condition("Degraded", "True", "MembersDown"), condition("Exposed", "False", "DomainMissing")),
            RUNS,
            [],
            "DomainMissing",
            "Exposed: m",
            "row DomainMissing",
        ),
        (
            tenant(
                condition("Ready", "False", "QuorumLost"),
                condition("PlaneReady", "False", "QuorumLost"),
                condition("Degraded", "True", "Recovering", "plane-2 starts alone"),
            ),
            RUNS,
            [Trouble("pod plane-0, container etcd", "CrashLoopBackOff", "")],
            "Recovering",
            "Degraded: plane-2 starts alone",
            "row Recovering",
        ),
        (
            tenant(condition("Ready", "False", "DataLost"), condition("PlaneReady", "False", "DataLost", "uid a, was b")),
            RUNS,
            [],
            "DataLost",
            "PlaneReady: uid a, was b",
            "bulkhead tenant accept-data red",
        ),
        (
            tenant(READY, condition("Exposed", "False", "DomainMissing")),
            RUNS,
            [],
            "DomainMissing",
            "Exposed: m",
            "see docs/troubleshooting.md, row DomainMissing",
        ),
    ],
)
def test_the_first_cause_and_the_next_step(  # noqa: PLR0917 -- a table of cases
    found: dict[str, Any], controllers: list[Any] | None, around: list[Trouble], reason: str, what: str, step: str
) -> None:
    cause = first_cause(found, controllers, around)
    assert (cause.reason, cause.healthy) == (reason, reason == "Ready")
    assert what in cause.what
    assert step in cause.next_step


def test_memory_that_ran_out_is_named_with_its_bound() -> None:
    container = {"name": "etcd", "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}
    container["lastState"] = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    spec = {"containers": [{"name": "etcd", "resources": {"limits": {"memory": "512Mi"}}}]}
    pod = {"metadata": {"name": "plane-0"}, "spec": spec, "status": {"containerStatuses": [container]}}
    (found,) = troubles([pod], [])
    assert found.message == "back-off (out of memory 4 times, limit 512Mi)"


async def test_the_command_reads_pods_and_says_one_cause(
    cli: Cli, controller: Controller, host_client: Client, name: str
) -> None:
    await controller.tenant(name)
    await controller.plane(name)
    await controller.say(name, "False", Reason.WAITING_FOR_PLANE, "etcd is starting")
    namespace = names.plane_namespace(name)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plane-0", "namespace": namespace}}
    await host_client.create(kinds.PODS, pod | {"spec": {"containers": [{"name": "etcd", "image": "x"}]}})
    waiting = {"name": "etcd", "ready": False, "restartCount": 3, "image": "x", "imageID": ""}
    waiting["state"] = {"waiting": {"reason": "ImagePullBackOff", "message": "no such \x1b[31mimage"}}
    await host_client.patch(
        kinds.PODS, "plane-0", {"status": {"containerStatuses": [waiting]}}, namespace, subresource="status"
    )
    done = await cli("tenant", "why", name)
    assert done.code == 1, done.err
    assert "cause:  pod plane-0, container etcd: ImagePullBackOff: no such" in done.out
    assert "next:   check the chart's images.registry" in done.out
    assert "\x1b" not in done.out
    assert '"nextStep"' in (await cli("tenant", "why", name, "-o", "json")).out
    assert (await cli("tenant", "why", "nope")).code == 3
