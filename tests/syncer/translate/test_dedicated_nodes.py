"""Nodes that are one tenant's alone, as the syncers of this one and of the others see them."""

import pytest

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from syncer.translate import sanitise
from syncer.translate.kinds import node
from syncer.translate.kinds.pod import to_host
from syncer.translate.podspec import placement
from tests.kit import translationsamples as samples


def host_node(taint: str | None) -> Obj:
    taints = [] if taint is None else [{"key": marks.TENANT, "value": taint, "effect": "NoSchedule"}]
    return {"metadata": {"name": "gpu-a", "labels": {marks.TENANT: taint or ""}}, "spec": {"taints": taints}, "status": {}}


@pytest.mark.parametrize(("taint", "cordoned"), [(None, False), ("red", False), ("blue", True)])
def test_a_node_that_becomes_anothers_looks_cordoned_and_tells_no_name(taint: str | None, cordoned: bool) -> None:
    seen = node.to_virtual(host_node(taint), samples.VIEW, {})
    assert seen["spec"].get("unschedulable", False) is cordoned
    assert marks.TENANT not in str(seen)
    assert "blue" not in str(seen)


@pytest.mark.parametrize("written", ["{bulkhead.dev/tenant: blue}", "bulkhead.dev/tenant=blue:NoSchedule"])
def test_a_pod_that_may_not_go_to_a_node_is_not_told_its_tenant(written: str) -> None:
    told = sanitise.text(f"0/3 nodes are available: 1 node(s) had untolerated taint {written}", samples.pod(), samples.VIEW)
    assert "blue" not in told
    assert "bulkhead.dev/tenant" in told


DEDICATED = {"enforced_node_selector": {"pool": "a", marks.TENANT: "red"}}
SHARED = {"enforced_node_selector": {"pool": "a"}}


def test_a_pod_without_a_node_is_recreated_when_its_pool_becomes_another() -> None:
    own = samples.pod({"nodeSelector": {"mine": "1"}})
    alone, shared = (to_host(own, samples.view(each)) for each in (DEDICATED, SHARED))
    assert placement.in_another_pool(shared, alone)
    assert placement.in_another_pool(alone, shared)
    assert not placement.in_another_pool(shared, shared)
    elsewhere = to_host(own, samples.view({"enforced_node_selector": {"pool": "b"}}))
    assert placement.in_another_pool(elsewhere, shared)
    # What something on the host added is not ours to judge.
    shared["spec"]["nodeSelector"]["added.by/webhook"] = "x"
    assert not placement.in_another_pool(to_host(own, samples.view(SHARED)), shared)


def test_a_tenant_cannot_ask_for_the_nodes_of_another() -> None:
    asked = {"nodeSelector": {marks.TENANT: "blue"}, "tolerations": [{"key": marks.TENANT, "operator": "Exists"}]}
    host = to_host(samples.pod(asked), samples.view(DEDICATED))
    assert host["spec"]["nodeSelector"][marks.TENANT] == "red"
    assert not any(each.get("key") == marks.TENANT for each in host["spec"]["tolerations"])
