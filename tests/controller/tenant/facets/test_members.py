"""What a Tenant's status says of a plane of several members, some of which are down."""

from typing import Any

import pytest

from bulkhead.api.conditions import find_condition
from controller import metrics
from controller.tenant.facets.members.report import spread
from controller.tenant.facets.plane.members import look
from controller.tenant.facets.plane.report import Found, report
from tests.controller.tenant.test_status import ready_findings
from tests.kit.statuses import compute
from tests.kit.tenantsamples import NOW, plane_spec, tenant

CRASHES = {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}, "restartCount": 7, "ready": False}


def member(number: int, *containers: dict[str, Any], ready: bool = False, **meta: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {
        "metadata": {"name": f"plane-{number}", "labels": {"bulkhead.dev/component": "plane"}} | meta,
        "spec": {"containers": [{"name": "etcd", "resources": {"limits": {"memory": "512Mi"}}}]},
        "status": {"conditions": conditions, "containerStatuses": list(containers)},
    }


def crashing(number: int, reason: str = "Error") -> dict[str, Any]:
    return member(number, {"name": "etcd", "lastState": {"terminated": {"reason": reason, "exitCode": 2}}} | CRASHES)


def serving(number: int) -> dict[str, Any]:
    return member(number, ready=True)


def said(
    pods: list[dict[str, Any]], *, answers: bool = True, replicas: int = 3, was: bool = True
) -> dict[str, tuple[str, ...]]:
    spec = plane_spec(control_plane={"replicas": replicas})
    before = compute(tenant(), plane_spec(), ready_findings(), NOW) if was else None
    found = ready_findings(pods=tuple(pods), plane_ready=answers, plane_message="the API server does not answer: refused")
    made = compute(tenant(status=before), spec, found, NOW)
    metrics.report("team-a", made)
    conditions = {name: find_condition(made["conditions"], name) for name in ("Ready", "PlaneReady")}
    return {
        name: (condition["status"], condition["reason"], condition["message"])
        for name, condition in conditions.items()
        if condition
    }


def test_a_plane_of_which_all_members_serve_says_nothing_of_them() -> None:
    assert said([serving(0), serving(1), serving(2)])["PlaneReady"][:2] == ("True", "Ready")
    assert "members" not in said([serving(0), serving(1), serving(2)])["Ready"][2]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_member_that_is_down_is_named_and_takes_no_ready_from_the_plane(which: int) -> None:
    pods = [crashing(number) if number == which else serving(number) for number in range(3)]
    found = said(pods)
    assert found["PlaneReady"][:2] == ("True", "MembersDown")
    assert found["Ready"][:2] == ("True", "Ready")
    for _, _, message in found.values():
        assert "2 of the plane's 3 members serve, and one more failure stops it" in message
        assert f"pod plane-{which}, container etcd: CrashLoopBackOff: back-off 5m0s" in message
        assert "(restarted 7 times, the last time after exit code 2)" in message
    assert metrics.members_down.labels("team-a")._value.get() == 1


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_plane_without_its_quorum_is_not_ready_and_names_its_members(which: int) -> None:
    pods = [serving(number) if number == which else crashing(number) for number in range(3)]
    found = said(pods)
    assert found["Ready"] == found["PlaneReady"]
    assert found["Ready"][:2] == ("False", "QuorumLost")
    assert "nothing is changed by itself" in found["Ready"][2]
    assert "1 of the plane's 3 members serve, and 2 must: " in found["Ready"][2]
    for number in {0, 1, 2} - {which}:
        assert f"pod plane-{number}, container etcd" in found["Ready"][2]
    assert f"plane-{which}" not in found["Ready"][2]
    assert metrics.members_down.labels("team-a")._value.get() == 0


def test_a_member_that_ran_out_of_memory_is_named_with_its_limit_and_where_to_raise_it() -> None:
    for pods in ([serving(0), crashing(1, "OOMKilled"), serving(2)], [serving(0), crashing(1, "OOMKilled"), crashing(2)]):
        message = said(pods)["Ready"][2]
        killed = "pod plane-1, container etcd: killed 7 times, because it needed more memory than its limit of 512Mi"
        assert f"{killed}; raise controlPlane.resources.etcd.limits.memory" in message


def test_a_quorum_whose_api_server_does_not_answer_is_not_ready() -> None:
    found = said([serving(0), serving(1), crashing(2)], answers=False)
    assert found["Ready"][:2] == ("False", "PlaneUnreachable")
    assert "does not answer: refused" in found["Ready"][2]
    assert "pod plane-2, container etcd" in found["Ready"][2]


ABSENT = {
    "no pod": (None, "pod plane-1: does not exist"),
    "one that goes": (member(1, ready=True, deletionTimestamp="2026-06-01T12:00:00Z"), "pod plane-1: is being deleted"),
    "one that starts": (member(1, {"name": "etcd", "ready": False}), "pod plane-1: not ready: etcd"),
    "one that started again": (
        member(1, {"name": "etcd", "ready": False, "restartCount": 1}, {"name": "kube-apiserver", "ready": True}),
        "pod plane-1: not ready: etcd (restarted 1 times)",
    ),
    "one that was killed before": (
        member(1, {"name": "etcd", "restartCount": 1, "lastState": {"terminated": {"reason": "OOMKilled"}}}),
        "pod plane-1, container etcd: killed 1 times, because it needed more memory than its limit of 512Mi",
    ),
    "one that nothing is known of": (member(1), "pod plane-1: not ready"),
}


@pytest.mark.parametrize("name", ABSENT)
def test_what_a_member_lacks_is_said_whatever_it_is(name: str) -> None:
    pod, message = ABSENT[name]
    pods = [member for member in (serving(0), pod, serving(2)) if member is not None]
    found = look(pods, 3)
    assert [member.message.partition("; raise")[0] for member in found.down] == [message]
    assert (found.quorate, found.trouble) == (True, None)
    assert message in said(pods)["Ready"][2]


def test_a_plane_that_starts_waits_for_its_members() -> None:
    found = said([member(0), member(1)], answers=False, was=False)
    assert found["Ready"][:2] == ("False", "WaitingForPlane")
    assert "0 of the plane's 3 members serve, and 2 must: pod plane-0: not ready; pod plane-1: not ready; " in found["Ready"][2]


def test_a_plane_of_one_member_says_what_it_has() -> None:
    found = said([crashing(0)], answers=False, replicas=1)
    assert found["Ready"][:2] == ("False", "Crashing")
    assert found["Ready"][2].startswith("pod plane-0, container etcd: CrashLoopBackOff")
    assert "members" not in found["Ready"][2]


def test_a_plane_that_goes_on_from_one_member_serves_and_says_that_it_is_the_only_one() -> None:
    pods = tuple({**pod, "metadata": pod["metadata"]} for pod in (crashing(0), crashing(1), serving(2)))
    spec = plane_spec(control_plane={"replicas": 3})
    found = report(tenant(), spec, Found(ready=True, uid="uid", pods=pods, etcd_quorate=True)).conditions["PlaneReady"]
    assert (found.status, found.reason) == ("True", "MembersDown")
    assert "1 of the plane's 3 members serve, and it is the only one: pod plane-0" in found.message
    # Without an answer of etcd, one pod of three proves nothing.
    found = report(tenant(), spec, Found(ready=True, uid="uid", pods=pods)).conditions["PlaneReady"]
    assert found.status == "False"


def placed(number: int, node: str = "", message: str = "") -> dict[str, Any]:
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return member(number) | {"spec": {"nodeName": node}, "status": {"conditions": [waits] if message else []}}


def test_whether_members_lie_apart_is_told_for_planes_of_three() -> None:
    apart = spread([placed(0, "a"), placed(1, "b"), placed(2, "c")])
    assert (apart.status, apart.reason) == ("True", "Ready")
    shared = spread([placed(0, "a"), placed(1, "b"), placed(2, "a")])
    assert (shared.status, shared.reason) == ("False", "SameNode")
    assert "plane-0 and plane-2 are both on node a" in shared.message
    waits = spread([placed(0, "a"), placed(1, message="0/1 nodes are available: topology spread constraints")])
    assert (waits.status, waits.reason) == ("False", "WaitingForNodes")
    assert "plane-1 waits for a node: 0/1 nodes" in waits.message
    assert spread([]) is None
