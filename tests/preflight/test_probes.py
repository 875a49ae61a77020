"""What the probes make of what pods and programs say, without a cluster."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from workstation.preflight.probes import network, objects, space, trials
from workstation.preflight.values import merged, parse

_SHAPE = objects.shape(parse(merged([])), None, ("registry",))
_NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {
        "status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": reason, "message": message}}}]}
    }


def test_every_probe_pod_is_restricted_and_ends_by_itself() -> None:
    for pod in (
        objects.pod(_SHAPE, "door", {}),
        objects.image_pod(_SHAPE, "image-0", "x"),
        objects.on_nodes(objects.pod(_SHAPE, "g", {}), ["a"]),
    ):
        spec = pod["spec"]
        context = spec["containers"][0]["securityContext"]
        assert spec["activeDeadlineSeconds"] <= 120
        assert (spec["automountServiceAccountToken"], spec["securityContext"]["runAsNonRoot"]) == (False, True)
        assert (context["capabilities"], context["allowPrivilegeEscalation"]) == ({"drop": ["ALL"]}, False)


@pytest.mark.parametrize(
    ("name", "labels", "age", "left"),
    [
        ("bulkhead-preflight-0a", {objects.LABEL: "true"}, 10, True),
        ("bulkhead-preflight-0a", {objects.LABEL: "true"}, 1, False),  # another admin's run, under way
        ("bulkhead-preflight-0a", {}, 10, False),
        ("production", {objects.LABEL: "true"}, 10, False),  # any user may have set the label
    ],
)
def test_only_objects_of_earlier_runs_are_swept(name: str, labels: dict[str, str], age: int, left: bool) -> None:
    born = (_NOW - timedelta(minutes=age)).isoformat()
    assert space.is_leftover({"metadata": {"name": name, "labels": labels, "creationTimestamp": born}}, _NOW) is left


def test_a_namespace_without_an_age_is_left_alone() -> None:
    metadata = {"name": "bulkhead-preflight-0a", "labels": {objects.LABEL: "true"}}
    for stamp in ({}, {"creationTimestamp": "long ago"}, {"creationTimestamp": "2026-01-01T00:00:00"}):
        assert not space.is_leftover({"metadata": metadata | stamp}, _NOW)


@pytest.mark.parametrize(
    ("pod", "pulled"),
    [
        (_waiting("ContainerCreating"), None),
        (_waiting("ErrImagePull", "401"), False),
        (_waiting("ImagePullBackOff"), False),
        (_waiting("CreateContainerError"), True),
        ({"status": {"containerStatuses": [{"state": {"terminated": {"reason": "StartError"}}}]}}, True),
        ({"status": {"containerStatuses": [{"state": {}}, 7]}}, None),
        ({"status": "nonsense"}, None),
    ],
)
def test_what_a_pod_says_of_its_image(pod: dict[str, Any], pulled: bool | None) -> None:
    found = trials.pull_of(pod, "r")
    assert (found and found.pulled) == pulled


def test_lines_of_a_program_that_are_none_are_passed_over() -> None:
    lines = space.parsed(b'{"round": 1, "reached": {"a": true}}\n[1]\nnonsense\n' + b"[" * 60_000 + b'\n{"round": "x"}\n\xff\n')
    assert network.last_round(lines) == network.Round(1, {"a": True})


def test_a_malformed_answer_of_a_client_does_not_count() -> None:
    assert network.last_round([{"round": 3, "reached": {"a": "yes", "b": False}}]) == network.Round(3, {"b": False})
    assert network.last_round([{"reached": {"a": True}}]) is None


def test_the_api_is_found_by_its_service_and_by_three_addresses_at_most() -> None:
    service = {"spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 443}]}}
    endpoints = [{"addresses": [f"192.168.7.{number}"]} for number in range(9)]
    found = network.api_targets((service,), ({"ports": [{"port": 6443}], "endpoints": endpoints},))
    assert found["api"] == ("10.96.0.1", 443)
    assert sorted(found) == ["api", "endpoint-0", "endpoint-1", "endpoint-2"]
    assert network.api_targets(({"spec": 7}, {}), ({"ports": "x", "endpoints": [1, {"addresses": [7]}]},)) == {}


def test_the_program_reports_facts_and_what_it_reaches_and_ends_when_told() -> None:
    source = objects.pod(_SHAPE, "x", {})["spec"]["containers"][0]["command"][2]
    order = {"facts": True, "serve": 0, "try": {"nobody": ["127.0.0.1", 1]}}
    with subprocess.Popen([sys.executable, "-c", source, json.dumps(order)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.terminate()
        assert process.wait(20) == 0
    assert set(lines[0]["facts"]) == {"seccomp", "root", "cgroup", "pids", "devices"}
    assert [line["round"] for line in lines[1:]] == [1, 2]
    assert lines[1]["reached"] == {"nobody": False}
