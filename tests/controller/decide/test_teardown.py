"""The teardown of a tenant: its order, from any state, and what it waits for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.decide import teardown
from controller.decide.teardown import Left, Step


def thing(kind: str, name: str, component: str | None = None, *, going: bool = False) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "uid": name, "labels": {"bulkhead.dev/component": component} if component else {}}
    if going:
        meta["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": {}}


WHOLE: dict[str, Any] = {
    "plane_namespace": thing("Namespace", "bh-team-a"),
    "work_namespace": thing("Namespace", "bh-team-a-work"),
    "deployments": (thing("Deployment", "syncer", "syncer"), thing("Deployment", "dns", "dns")),
    "stateful_sets": (thing("StatefulSet", "plane", "plane"),),
    "plane_pods": (thing("Pod", "syncer-1", "syncer"), thing("Pod", "plane-0", "plane"), thing("Pod", "dns-1", "dns")),
    "work_pods": (thing("Pod", "job-1"), thing("Pod", "job-2", going=True)),
    "cluster_scoped": (thing("ClusterRoleBinding", "bh-team-a-syncer-nodes"), thing("ServiceCIDR", "bh-team-a")),
    "remnants": (thing("ServiceCIDR", "left"),),
}
ORDER = list(Step)


def without(left: dict[str, Any], gone: set[str]) -> dict[str, Any]:
    """The world after some objects are gone; a controller that is deleted takes its pods with it, sooner or later."""
    return {
        key: tuple(obj for obj in value if obj["metadata"]["name"] not in gone)
        if isinstance(value, tuple)
        else (None if value is None or value["metadata"]["name"] in gone else value)
        for key, value in left.items()
    }


def test_a_whole_tenant_comes_down_in_order() -> None:
    left, steps = dict(WHOLE), []
    while (upcoming := teardown.next_step(Left(**left))).step is not Step.FINALIZER:
        steps.append(upcoming.step)
        left = without(left, {text.rpartition("/")[2].rpartition(" ")[2] for text in upcoming.waiting_for})
    assert steps == [Step.SYNCER, Step.WORKLOADS, Step.PLANE, Step.NAMESPACES, Step.CLUSTER_SCOPED, Step.REMNANT]


NAMES = sorted(
    {obj["metadata"]["name"] for value in WHOLE.values() for obj in (value if isinstance(value, tuple) else (value,))}
)


@given(st.sets(st.sampled_from(NAMES)), st.data())
def test_from_any_half_made_or_half_gone_state_it_ends_and_never_goes_back(gone: set[str], data: st.DataObject) -> None:
    left, reached = without(WHOLE, gone), -1
    for _ in range(len(NAMES) + 1):
        upcoming = teardown.next_step(Left(**left))
        assert ORDER.index(upcoming.step) >= reached
        reached = ORDER.index(upcoming.step)
        if upcoming.step is Step.FINALIZER:
            assert not any(value for value in left.values())
            return
        names = [text.rpartition(" ")[2] for text in upcoming.waiting_for]
        left = without(left, data.draw(st.sets(st.sampled_from(names), min_size=1)))
    pytest.fail("the teardown did not come to its end")


def test_what_is_going_already_is_waited_for_and_not_deleted_again() -> None:
    upcoming = teardown.next_step(Left(work_pods=WHOLE["work_pods"]))
    assert [action.obj["metadata"]["name"] for action in upcoming.actions] == ["job-1"]
    assert len(upcoming.waiting_for) == 2


def placed(kind: str, name: str, namespace: str, component: str) -> dict[str, Any]:
    made = thing(kind, name, component)
    return made | {"metadata": made["metadata"] | {"namespace": namespace}}


@pytest.mark.parametrize(
    ("left", "waiting_for"),
    [
        (
            {
                "deployments": (placed("Deployment", "syncer", "bh-team-a", "syncer"),),
                "plane_pods": (placed("Pod", "syncer-1", "bh-team-a", "syncer"),),
            },
            ("Deployment bh-team-a/syncer", "Pod bh-team-a/syncer-1"),
        ),
        ({"work_pods": (placed("Pod", "job-1", "bh-team-a-work", ""),)}, ("Pod bh-team-a-work/job-1",)),
        ({"plane_namespace": WHOLE["plane_namespace"]}, ("Namespace bh-team-a",)),
        ({"cluster_scoped": WHOLE["cluster_scoped"]}, ("ClusterRoleBinding bh-team-a-syncer-nodes", "ServiceCIDR bh-team-a")),
    ],
)
def test_what_is_waited_for_is_named_with_its_namespace(left: dict[str, Any], waiting_for: tuple[str, ...]) -> None:
    """An admin looks for it there: a tenant has two, and pods of the same name in both."""
    assert teardown.next_step(Left(**left)).waiting_for == waiting_for


def test_claims_go_together_with_their_namespace_and_not_before() -> None:
    claim = thing("PersistentVolumeClaim", "data-plane-0")
    still = Left(**(WHOLE | {"claims": (claim,)}))
    assert not any(action.obj is claim for action in teardown.next_step(still).actions)
    last = Left(plane_namespace=WHOLE["plane_namespace"], claims=(claim, thing("PersistentVolumeClaim", "old", going=True)))
    upcoming = teardown.next_step(last)
    assert upcoming.step is Step.NAMESPACES
    assert [action.obj["metadata"]["name"] for action in upcoming.actions] == ["bh-team-a", "data-plane-0"]


def test_a_slice_with_addresses_of_other_services_gets_a_remnant_that_is_not_waited_for() -> None:
    slice_, left = thing("ServiceCIDR", "bh-team-a", going=True), thing("ServiceCIDR", "left")
    upcoming = teardown.next_step(Left(cluster_scoped=(slice_,), remnants_missing=(left,)))
    assert [(action.verb, action.obj["metadata"]["name"]) for action in upcoming.actions] == [("leave", "left")]
    assert upcoming.waiting_for == ("ServiceCIDR bh-team-a",)
    # Its deletion was not asked for, as the controller died meanwhile: the host would give further addresses of it for ever.
    upcoming = teardown.next_step(Left(remnants=(left,)))
    assert (upcoming.step, [action.verb for action in upcoming.actions]) == (Step.REMNANT, ["delete"])
    assert teardown.next_step(Left(remnants=(thing("ServiceCIDR", "left", going=True),))).step is Step.FINALIZER
