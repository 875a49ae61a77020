"""A DNS that ran while its API server was away starts afresh, once for each time, and for no other reason."""

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from controller.decide.plan import Plan, plan
from controller.existing import by_slot
from controller.plane.spec import SINCE_ANNOTATION
from tests.kit.tenantsamples import changed, material, plane_spec

EARLY, MIDDLE, LATE = "2026-11-24T09:59:59Z", "2026-11-24T10:00:00Z", "2026-11-24T10:00:01Z"
CONTAINERS = {"plane": "kube-apiserver", "dns": "coredns"}


def pod(component: str, start: str, *, name: str = "", namespace: str = "bh-team-a", going: bool = False) -> Obj:
    meta: Obj = {
        "name": name or component,
        "namespace": namespace,
        "labels": {labels.COMPONENT: component},
    }
    if going:
        meta["deletionTimestamp"] = LATE
    status = {"name": CONTAINERS[component], "state": {"running": {"startedAt": start}} if start else {"waiting": {}}}
    other = {"name": "etcd", "state": {"running": {"startedAt": LATE}}}
    return {"kind": "Pod", "metadata": meta, "status": {"containerStatuses": [other, status]}}


def deployment(since: str = "") -> Obj:
    annotations = {"annotations": {SINCE_ANNOTATION: since}} if since else {}
    meta = {"name": "dns", "namespace": "bh-team-a"}
    return {"kind": "Deployment", "metadata": meta, "spec": {"template": {"metadata": annotations, "spec": {}}}}


@functools.cache
def planned(replicas: int) -> Plan:
    spec = changed(plane_spec(), control_plane={"replicas": replicas})
    return plan(spec, material(spec), {})


def marked(*existing: Obj, plane_answers: bool = True, replicas: int = 1) -> str | None:
    """What the planned Deployment says of the API server that it follows."""
    (made,) = planned(replicas).followers(plane_answers=plane_answers, existing=by_slot(existing))
    found: str | None = made["spec"]["template"]["metadata"]["annotations"].get(SINCE_ANNOTATION)
    return found


@pytest.mark.parametrize(
    ("existing", "expected"),
    [
        pytest.param((), None, id="nothing is there yet"),
        pytest.param((deployment(), pod("plane", EARLY), pod("dns", MIDDLE)), None, id="a DNS that is younger"),
        pytest.param((deployment(), pod("plane", MIDDLE), pod("dns", MIDDLE)), None, id="both in one second"),
        pytest.param((deployment(), pod("plane", LATE), pod("dns", MIDDLE)), LATE, id="an API server that is younger"),
        pytest.param((deployment(MIDDLE), pod("plane", LATE), pod("dns", MIDDLE)), LATE, id="once more"),
        pytest.param((deployment(LATE), pod("plane", LATE), pod("dns", MIDDLE)), LATE, id="being replaced"),
        pytest.param((deployment(MIDDLE), pod("plane", MIDDLE), pod("dns", LATE)), MIDDLE, id="replaced"),
        pytest.param((deployment(MIDDLE), pod("plane", ""), pod("dns", EARLY)), MIDDLE, id="an API server that does not run"),
        pytest.param((deployment(), pod("plane", LATE), pod("dns", "")), None, id="a DNS that is starting"),
        pytest.param((deployment(), pod("plane", LATE), pod("dns", EARLY, going=True)), None, id="a DNS that is going"),
        pytest.param((deployment(), pod("plane", LATE, going=True), pod("dns", EARLY)), None, id="a plane that is going"),
        pytest.param((deployment(), pod("plane", LATE, namespace="bh-team-b"), pod("dns", EARLY)), None, id="another's plane"),
        pytest.param((deployment(), {**pod("plane", LATE), "status": []}, pod("dns", EARLY)), None, id="a status of no shape"),
    ],
)
def test_the_dns_is_marked_with_an_api_server_that_outlived_it(existing: tuple[Obj, ...], expected: str | None) -> None:
    assert marked(*existing) == expected


def test_a_dns_is_left_alone_while_its_plane_does_not_answer() -> None:
    late = (deployment(EARLY), pod("plane", LATE), pod("dns", MIDDLE))
    assert marked(*late, plane_answers=False) == EARLY
    assert marked(*late) == LATE


def test_a_plane_of_three_is_left_alone() -> None:
    assert marked(deployment(), pod("plane", LATE), pod("dns", MIDDLE), replicas=3) is None


@given(st.lists(st.integers(0, 59), max_size=6), st.integers(0, 59), st.booleans())
def test_however_clocks_go_one_api_server_brings_one_rollout(dns: list[int], began: int, answers: bool) -> None:
    """Whatever the new pods say of their start, the mark is this API server's or stays what it was."""
    since, marks = "", []
    for start in dns:
        existing = (
            deployment(since),
            pod("plane", f"2026-11-24T10:00:{began:02d}Z"),
            pod("dns", f"2026-11-24T10:00:{start:02d}Z"),
        )
        since = marked(*existing, plane_answers=answers) or ""
        marks.append(since)
    changes = [after for before, after in zip(["", *marks], marks, strict=False) if after != before]
    assert len(changes) <= 1
    assert answers or not changes
