"""Gangs and the ledger's gate: what the objects say that a pod names, and what stays as it was made."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import ledger
from bulkhead.api.objects import Obj
from syncer.translate import TenantView, Untranslatable, diff
from syncer.translate.kinds import gang, gate, pod
from syncer.translate.kinds.gang import Groups
from syncer.translate.kinds.gate import Around
from tests.kit import translationsamples as samples

VIEW = samples.view({"gated_gangs": True, "pod_groups": True})
GROUPED = samples.pod({"schedulingGroup": {"podGroupName": "train"}})
COSCHEDULED = samples.pod({}, {"labels": {"scheduling.x-k8s.io/pod-group": "mpi"}})
GPU = samples.container(resources={"limits": {"nvidia.com/gpu": 1}})


def upstream(minimum: Any = 4, uid: str = "g1", **spec: Any) -> Obj:
    policy = {"gang": {"minCount": minimum}} if minimum is not None else {"basic": {}}
    return {"metadata": {"name": "train", "uid": uid}, "spec": {"schedulingPolicy": policy} | spec}


def own(minimum: Any = 3) -> Obj:
    return {"metadata": {"name": "mpi", "uid": "o1"}, "spec": {"minMember": minimum}}


def refused(virtual: Obj, groups: Groups, view: TenantView = VIEW) -> str:
    with pytest.raises(Untranslatable) as caught:
        gang.of_pod(virtual, view, groups)
    return f"{caught.value.reason} {caught.value}"


def made(virtual: Obj, groups: Groups, view: TenantView = VIEW) -> Obj:
    return pod.for_creation(virtual, view, Around(groups))


def test_item_93_a_pod_group_of_the_plane_is_a_gang_with_its_topology() -> None:
    found = gang.of_pod(GROUPED, VIEW, Groups(upstream(schedulingConstraints={"topology": [{"key": "bulkhead.dev/rack"}]})))
    assert found is not None
    assert (found.name.partition(".")[0], found.size, found.topology) == ("train", 4, "required:bulkhead.dev/rack")
    # Pods of an earlier group of the name may still end: they are of another gang.
    again = gang.of_pod(GROUPED, VIEW, Groups(upstream(uid="g2")))
    assert again is not None
    assert again.name != found.name
    assert len(again.name) <= 253


def test_item_93_where_the_host_has_no_pod_groups_the_pod_says_only_to_the_ledger_of_which_it_is() -> None:
    mirrored, alone = made(GROUPED, Groups(upstream())), made(GROUPED, Groups(upstream(), mirrored=False))
    assert "schedulingGroup" in mirrored["spec"]
    assert "schedulingGroup" not in alone["spec"]
    assert mirrored["metadata"] == alone["metadata"]
    assert gate.is_gated(alone)
    # A group that holds nothing together is not waited for either.
    basic = made(GROUPED, Groups(upstream(None), mirrored=False))
    assert not gate.is_gated(basic)
    assert "schedulingGroup" not in basic["spec"]


def test_item_93_pod_groups_are_gangs_only_for_pods_that_wait_for_the_ledger_anyway() -> None:
    plain = replace(VIEW, gated_gangs=False)
    assert gang.of_pod(GROUPED, plain, Groups(upstream())) is None
    assert gang.of_pod(GROUPED, replace(plain, gated_resources=frozenset({"nvidia.com/gpu"})), Groups(upstream())) is not None


def test_item_93_a_groups_size_and_topology_count_only_once_they_are_checked() -> None:
    assert refused(GROUPED, Groups()).startswith("ReferenceMissing")
    for minimum, reason in ((0, "Malformed"), (-1, "Malformed"), (10**9, "TooLarge"), ("1k", "Malformed"), (True, "Malformed")):
        assert refused(GROUPED, Groups(upstream(minimum))).startswith(reason)
        assert refused(COSCHEDULED, Groups(own=own(minimum))).startswith(reason)
    hidden = {"topology": [{"key": "example.org/hidden"}]}
    assert refused(GROUPED, Groups(upstream(schedulingConstraints=hidden))).startswith("NotAllowed")
    two = {"topology": [{"key": "bulkhead.dev/rack"}, {"key": "bulkhead.dev/rack"}]}
    assert refused(GROUPED, Groups(upstream(schedulingConstraints=two))).startswith("NotSupported")


def test_item_93_a_group_of_the_coscheduling_plugin_counts_before_a_label() -> None:
    labelled = samples.merged(COSCHEDULED, {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group-min-available": "7"}}})
    sizes = [gang.of_pod(labelled, VIEW, groups) for groups in (Groups(own=own(), serves_own=True), Groups(serves_own=True))]
    assert [each.size for each in sizes if each] == [3, 7]
    assert refused(COSCHEDULED, Groups(serves_own=True)).startswith("ReferenceMissing")
    assert refused(COSCHEDULED, Groups()).startswith("Malformed")


def test_item_93_a_gang_without_a_size_is_told_where_to_set_it() -> None:
    for virtual, groups, where in (
        (samples.pod({}, {"labels": {"kueue.x-k8s.io/pod-group-name": "a"}}), Groups(), "kueue.x-k8s.io/pod-group-total-count"),
        (COSCHEDULED, Groups(own={"metadata": {"name": "g", "uid": "u"}, "spec": {}}), "minMember of the PodGroup"),
    ):
        said = refused(virtual, groups)
        assert f"the size of its gang is missing: add {where}" in said
        assert "None" not in said


def test_item_93_one_pod_is_not_a_gang() -> None:
    assert gang.of_pod(GROUPED, VIEW, Groups(upstream(1))) is None
    assert not gate.is_gated(made(GROUPED, Groups(upstream(1))))


def test_item_94_a_claim_for_gated_devices_closes_the_gate_too() -> None:
    view = samples.view({"gated_resources": ["nvidia.com/gpu"]})
    assert gate.is_gated(pod.for_creation(samples.pod(), view, Around(Groups(), asks_by_claim=True)))
    assert not gate.is_gated(pod.for_creation(samples.pod(), view))


def test_item_94_the_ledgers_changes_are_no_difference_and_the_tenants_move_no_pod_into_another_gang() -> None:
    labels = {"kueue.x-k8s.io/pod-group-name": "a", "x": "1"}
    virtual = samples.pod({}, {"labels": labels, "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"}})
    host = made(virtual, Groups())
    assert diff.pod_patches(pod.for_patch(virtual, host, VIEW), host) == ()
    # Admitted, pinned, told and taken back.
    admitted = copy.deepcopy(host)
    admitted["spec"].pop("schedulingGates")
    admitted["spec"]["nodeSelector"]["kubernetes.io/hostname"] = "gpu-a"
    admitted["metadata"]["annotations"] |= dict.fromkeys(ledger.BY_LEDGER, "{}")
    assert diff.pod_patches(pod.for_patch(virtual, admitted, VIEW), admitted) == ()
    changed = copy.deepcopy(virtual)
    changed["metadata"]["labels"] |= {"kueue.x-k8s.io/pod-group-name": "b", "x": "2"}
    for view in (VIEW, replace(VIEW, gated_gangs=False), replace(VIEW, gated_resources=frozenset({"cpu"}))):
        (patch,) = diff.pod_patches(pod.for_patch(changed, host, view), host)
        assert "spec" not in patch.body
        assert not set(patch.body["metadata"].get("annotations", {})) & {*ledger.BY_SYNCER, *ledger.BY_LEDGER}


ANYTHING = st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just([]) | st.just({"name": 1})
KEYS = (*gang._MINIMA, gang._COSCHEDULED, gang._KUEUE, gang._KUEUE_TOTAL, gang._OF_OWNER, *gang._TOPOLOGIES)
MARKS = ANYTHING | st.dictionaries(st.sampled_from(KEYS), ANYTHING | st.sampled_from(["a", "2", "0", "bulkhead.dev/rack"]))
OBJECTS = st.none() | st.builds(lambda uid, spec: {"metadata": {"uid": uid}, "spec": spec}, ANYTHING, ANYTHING)


METAS = st.fixed_dictionaries({"labels": MARKS, "annotations": MARKS, "ownerReferences": ANYTHING})


@given(meta=METAS, named=ANYTHING, of_plane=OBJECTS, of_tenant=OBJECTS)
def test_item_93_whatever_a_plane_answers_is_a_gang_or_a_reason(meta: Obj, named: Any, of_plane: Any, of_tenant: Any) -> None:
    virtual = {"metadata": meta, "spec": {"schedulingGroup": {"podGroupName": named}}}
    try:
        found = gang.of_pod(virtual, VIEW, Groups(of_plane, of_tenant))
    except Untranslatable:
        return
    assert found is None or (2 <= found.size <= ledger.MOST_PODS and 0 < len(found.name) <= 253)
