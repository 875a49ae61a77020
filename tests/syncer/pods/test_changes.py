"""What has to change on a host pod that is there."""

from dataclasses import replace

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from syncer.pods.changes import Changes, changes
from syncer.translate import TenantView, Untranslatable
from syncer.translate.kinds import pod
from syncer.translate.podspec import placement
from tests.kit import translationsamples as samples

CORDONED = replace(samples.VIEW, cordoned=frozenset({"gpu-a"}))
STRICT = replace(samples.VIEW, seccomp_profiles=frozenset())
LISTED = replace(samples.VIEW, seccomp_profiles=frozenset({"audit.json"}))
DEBUGGER = {
    "name": "d",
    "image": "x",
    "securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "audit.json"}},
}


def created(virtual: Obj, view: TenantView = samples.VIEW, **more: Obj) -> Obj:
    """The host pod as it was created for a virtual one."""
    return samples.merged(samples.merged(pod.for_creation(virtual, view), {"metadata": {"uid": "h"}}), more)


def test_a_host_pod_as_it_was_created_changes_nothing() -> None:
    virtual = samples.pod()
    assert changes(virtual, created(virtual), samples.VIEW) == Changes()


@pytest.mark.parametrize(
    ("virtual", "host", "recreate"),
    [
        ({}, {}, True),
        ({"spec": {"nodeName": "gpu-a"}}, {}, False),
        ({}, {"spec": {"nodeName": "gpu-a"}}, False),
        ({}, {"metadata": {"finalizers": ["example.com/held"]}}, False),
    ],
    ids=["without a node", "bound in the plane", "placed by the host", "held on the host"],
)
def test_marks_on_nodes_recreate_a_host_pod_without_a_node(virtual: Obj, host: Obj, recreate: bool) -> None:
    found = changes(samples.merged(samples.pod(), virtual), created(samples.pod(), **host), CORDONED)
    assert found.recreate is recreate
    assert not changes(samples.pod(), created(samples.pod(), CORDONED), CORDONED).recreate


def test_another_pool_recreates_it_as_well() -> None:
    moved = replace(samples.VIEW, enforced_node_selector={marks.TENANT: "red"})
    assert changes(samples.pod(), created(samples.pod()), moved).recreate


def test_a_gated_pod_that_asks_for_other_nodes_than_it_did_is_recreated() -> None:
    """Kubernetes lets a tenant change a pod's node affinity while it has gates, and take the gates away by the same write."""
    gated = samples.pod({"schedulingGates": [{"name": "example.com/arch"}]})
    term = {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]}
    asked = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    narrowed = samples.merged(gated, {"spec": {"affinity": asked}})
    let_go = samples.merged(narrowed, {"spec": {"schedulingGates": []}})
    assert not changes(gated, created(gated), samples.VIEW).recreate
    assert changes(narrowed, created(gated), samples.VIEW).recreate
    assert changes(let_go, created(gated), samples.VIEW).recreate
    assert not changes(let_go, created(narrowed), samples.VIEW).recreate, "the host pod has it: its gate goes"
    assert not changes(narrowed, created(narrowed), samples.VIEW).recreate
    assert not changes(narrowed, created(gated, spec={"nodeName": "gpu-a"}), samples.VIEW).recreate


def test_a_host_pod_of_an_older_release_does_not_say_what_it_was_made_with_and_stays() -> None:
    gated = samples.pod({"schedulingGates": [{"name": "example.com/arch"}]})
    older = created(gated)
    del older["metadata"]["annotations"][placement.ASKED_WITH]
    assert changes(gated, older, samples.VIEW) == Changes()


def test_a_refused_ephemeral_container_stops_nothing_else_and_its_generation_is_not_noted() -> None:
    first = samples.pod(metadata={"generation": 1})
    asked = {"metadata": {"generation": 2, "labels": {"app": "b"}}, "spec": {"ephemeralContainers": [DEBUGGER]}}
    found = changes(samples.merged(first, asked), created(first), STRICT)
    assert found.refused is not None
    assert [patch.body["metadata"]["labels"] for patch in found.patches] == [{"app": "b"}]
    assert "annotations" not in found.patches[0].body["metadata"]
    found = changes(samples.merged(first, asked), created(first), LISTED)
    assert found.refused is None
    assert [patch.subresource for patch in found.patches] == [None, "ephemeralcontainers", None]
    assert found.patches[-1].body["metadata"]["annotations"] == {pod.GENERATION: "2"}


def test_a_pod_that_no_longer_has_a_place_is_refused_as_a_whole() -> None:
    virtual = samples.pod({"schedulerName": 7})
    with pytest.raises(Untranslatable):
        changes(virtual, created(samples.pod()), samples.VIEW)
