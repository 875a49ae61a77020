"""What the ledger sees of host objects: golden cases, and objects of any shape."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import podresources, requirements
from bulkhead.ledger.model import Needs, Node, Pod, Taint
from bulkhead.ledger.nodes import Nodes
from bulkhead.ledger.read import node_of, pod_of
from controller.slurm.objects import parts
from controller.slurm.objects.workers import worker_pod
from controller.slurm.spec import NAMESPACE, WORKER, NodeSetSpec, SlurmImages, SlurmSpec
from syncer.translate import metadata
from tests.api.test_podresources import SIDECAR, holder, pod
from tests.kit import yamlfiles

CASES: list[dict[str, Any]] = yamlfiles.load(Path(__file__).parent / "data/pods.yaml")
PLAIN: dict[str, Any] = {
    "metadata": {
        "uid": "1",
        "name": "job-0-abc",
        "namespace": "bh-team-a-work",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"bulkhead.dev/virtual-namespace": "train", "bulkhead.dev/virtual-name": "job-0"},
    },
    "spec": {"containers": [{"name": "main"}]},
}


def over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    return below | {
        key: over(below[key], value) if isinstance(value, dict) and isinstance(below.get(key), dict) else value
        for key, value in above.items()
    }


def listed(value: Any) -> Any:
    """Tuples as YAML has them."""
    if isinstance(value, dict):
        return {key: listed(each) for key, each in value.items()}
    return [listed(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_what_is_seen_of_a_pod(case: dict[str, Any]) -> None:
    found = pod_of(over(PLAIN, case["pod"]))
    if found is None:
        assert case["sees"] is None
        return
    seen = listed(dataclasses.asdict(found))
    assert {key: seen[key] for key in case["sees"]} == case["sees"]


def test_what_is_seen_of_a_node() -> None:
    room = {"cpu": "31850500u", "memory": "1Gi", "nvidia.com/gpu": "8", "pods": "110", "broken": "-1"}
    taints = [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "b", "value": "c", "effect": "NoExecute"},
        {"key": "d", "effect": "PreferNoSchedule"},
    ]
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    found = node_of(
        {"metadata": {"name": "n", "labels": {"a": "b"}}, "spec": {"taints": taints}, "status": ready | {"allocatable": room}}
    )
    assert found == Node(
        "n",
        {"cpu": 31850, "memory": 2**30, "nvidia.com/gpu": 8, "pods": 110},
        {"a": "b"},
        (Taint("a", "", "NoSchedule"), Taint("b", "c", "NoExecute")),
    )


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_is_not_ready_or_is_cordoned_takes_no_pod(status: str) -> None:
    silent, cordoned = (
        node_of({"status": {"conditions": [{"type": "Ready", "status": status}]}}),
        node_of({"spec": {"unschedulable": True}}),
    )
    assert not silent.usable
    assert not cordoned.usable
    assert node_of({}).usable
    # Pods on a cordoned node end as they are told.
    assert (silent.lost, cordoned.lost, node_of({}).lost) == (True, False, False)


def test_the_workers_of_slurm_are_called_as_they_are_made() -> None:
    marks = {metadata.host_label_key(key, ""): value for key, value in parts.marks(WORKER).items()}
    spec = SlurmSpec("team-a", "team-a", "26.05.5", SlurmImages("slurm", "mariadb"))
    virtual = worker_pod(spec, NodeSetSpec("gpu", 1, 1, 1, cpus=1, memory_mib=64), 0, owner_uid="u")
    owners = json.dumps(virtual["metadata"]["ownerReferences"])
    noted = {"bulkhead.dev/virtual-namespace": NAMESPACE, "bulkhead.dev/virtual-owners": owners}

    def is_worker(**more: str) -> bool:
        found = pod_of(over(PLAIN, {"metadata": {"labels": marks, "annotations": noted | more}}))
        assert found is not None
        return found.slurm_worker

    assert is_worker()
    # Slinky's have the same labels, and its chart's namespace is the same.
    slinky = '[{"apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "name": "x", "controller": true}]'
    for other in (slinky, owners.replace("true", "false", 1), "[", "{}", "[1]", "x" * 70_000, '[{"apiVersion": 1}]'):
        assert not is_worker(**{"bulkhead.dev/virtual-owners": other})
    assert not is_worker(**{"bulkhead.dev/virtual-namespace": "default"})


def test_equal_needs_are_one_object() -> None:
    first, second = (pod_of(over(PLAIN, {"spec": {"nodeSelector": {"pool": "a"}}})) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.needs is second.needs


def test_needs_beyond_all_bounds_fit_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "MOST", 100)
    not_in = [{"key": "metadata.name", "operator": "NotIn", "values": [f"n{number}"]} for number in range(60)]
    required = {"nodeSelectorTerms": [{"matchFields": not_in[:40]}]}
    fine = over(PLAIN, {"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}})
    found = pod_of(fine)
    assert found is not None
    nodes = Nodes([Node("free", {})])
    assert nodes.matching(found.needs)
    required["nodeSelectorTerms"][0]["matchFields"] = not_in
    found = pod_of(fine)
    assert found is not None
    assert not nodes.matching(found.needs)


_AMOUNT = st.sampled_from([None, "1", "250m", "3", "x"])
_HOLDERS = st.builds(
    lambda name, request, limit, more: holder(name, request, limit, **more),
    st.sampled_from(["cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu"]),
    _AMOUNT,
    _AMOUNT,
    st.sampled_from([{}, SIDECAR]),
)


@given(
    st.lists(_HOLDERS, max_size=3),
    st.lists(_HOLDERS, max_size=3),
    st.none() | _HOLDERS,
    st.sampled_from([{}, {"overhead": {"cpu": "1"}}]),
)
def test_all_resources_at_once_are_what_each_is_alone(
    containers: list[Any], inits: list[Any], whole: dict[str, Any] | None, more: dict[str, Any]
) -> None:
    made = pod(*containers, inits=tuple(inits), **(whole or {}), **more)
    together = podresources.reserved(made)
    for name in ("cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu"):
        assert together.get(name, 0) == podresources.requested(made, name)


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
_FIELDS: dict[str, tuple[str, ...]] = {
    "metadata": ("uid", "name", "namespace", "labels", "annotations", "creationTimestamp", "deletionTimestamp"),
    "spec": (
        "containers", "initContainers", "overhead", "resources", "nodeSelector", "affinity", "tolerations", "taints", "volumes",
        "schedulingGates", "nodeName", "priority", "activeDeadlineSeconds", "topologySpreadConstraints", "unschedulable",
    ),
    "status": ("phase", "conditions", "containerStatuses", "resources", "allocatedResources", "allocatable", "startTime"),
}  # fmt: skip
_INNER = ("name", "key", "operator", "values", "effect", "resources", "requests", "nodeAffinity", "ports", "matchFields")
_SHAPED = st.dictionaries(st.sampled_from(_INNER), _ANYTHING, max_size=3)
_VALUE = _ANYTHING | st.lists(_SHAPED, max_size=2) | _SHAPED
_OBJECTS = st.fixed_dictionaries({
    part: _ANYTHING | st.dictionaries(st.sampled_from(names), _VALUE) for part, names in _FIELDS.items()
})  # fmt: skip


@given(_OBJECTS)
def test_objects_of_any_shape_are_read(obj: dict[str, Any]) -> None:
    node = node_of(obj)
    assert all(type(amount) is int and amount >= 0 for amount in node.allocatable.values())
    for each in (obj, obj | {"metadata": PLAIN["metadata"]}):
        found = pod_of(each)
        if found is not None:
            hash(found.needs)
            Nodes([node]).matching(found.needs)
            assert all(type(amount) is int and amount > 0 for amount in found.asks.values())


@given(st.dictionaries(st.sampled_from(["nodeSelectorTerms", "x"]), _ANYTHING))
def test_an_affinity_of_any_shape_never_opens_nodes_that_it_might_close(required: dict[str, Any]) -> None:
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    found = pod_of(over(PLAIN, {"spec": {"affinity": affinity}}))
    assert isinstance(found, Pod)
    assert found.needs != Needs()
    assert not Nodes([Node("n", {})]).matching(found.needs)
