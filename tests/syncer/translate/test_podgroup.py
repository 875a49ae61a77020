"""PodGroups: when a pod may follow its group, and what the host's scheduler says of one."""

from typing import Any

import pytest

from bulkhead.api.objects import Obj
from syncer.translate import Untranslatable, references
from syncer.translate.kinds import podgroup
from syncer.translate.references import Reference
from tests.kit import translationsamples as samples

VIEW = samples.view({"pod_groups": True})
POD = samples.pod({"schedulingGroup": {"podGroupName": "gang"}})


def group(**spec: Any) -> Obj:
    meta = {"name": "gang", "namespace": "team", "uid": "u1"}
    return {"kind": "PodGroup", "metadata": meta, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}} | spec}


def host(virtual: Obj, **meta: Any) -> Obj:
    made = podgroup.to_host(virtual, VIEW)
    return made | {"metadata": made["metadata"] | meta}


def refused(virtual: Obj | None, below: Obj | None) -> str:
    with pytest.raises(Untranslatable) as caught:
        podgroup.check_ready(POD, virtual, below)
    return f"{caught.value.reason} {caught.value}"


def test_item_91_a_pod_follows_the_group_that_is_its_own_and_stays() -> None:
    podgroup.check_ready(POD, group(), host(group()))
    assert "waiting for the PodGroup 'gang'" in refused(None, None)
    # Without the virtual group its copy is on its way out.
    assert refused(None, host(group())).startswith("ReferenceMissing")
    assert "not on the host yet" in refused(group(), None)
    assert "not on the host yet" in refused(group(), host(group(), deletionTimestamp="2026-01-01T00:00:00Z"))
    earlier = group() | {"metadata": group()["metadata"] | {"uid": "u0"}}
    assert "not on the host yet" in refused(group(), host(earlier))


def test_item_91_a_host_that_dropped_the_topology_does_not_get_the_pods() -> None:
    asked = group(schedulingConstraints={"topology": [{"key": "bulkhead.dev/rack"}]})
    podgroup.check_ready(POD, asked, host(asked))
    assert "does not place groups by topology" in refused(asked, host(group()))


def test_item_91_of_the_hosts_conditions_only_the_schedulers_come_up_and_the_tenants_own_stay() -> None:
    own, name = group(), VIEW.host_name("PodGroup", "team", "gang")
    mine = {"type": "example.org/Mine", "status": "True", "reason": "Mine", "message": "x"}
    own["status"] = {"conditions": [mine, {"type": "PodGroupScheduled", "status": "True", "reason": "Old"}]}
    told = {"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable", "message": f"{name} in bh-red-work"}
    given = [told | {"observedGeneration": 7}, {"type": "of-the-host", "status": "True"}, "garbage"]
    below = host(own) | {"status": {"conditions": given}}
    assert podgroup.status_to_virtual(below, own, VIEW) == {"conditions": [mine, told | {"message": "gang in team"}]}
    assert podgroup.status_to_virtual(host(group()), group(), VIEW) == {}
    assert podgroup.status_to_virtual({"status": {"conditions": 1}}, {"metadata": 1, "status": []}, VIEW) == {}


def test_item_91_a_group_of_a_class_of_the_hosts_components_is_the_tenants_and_says_so() -> None:
    (told,) = podgroup.remarks(group(priorityClassName="system-node-critical"), VIEW)
    assert "system-node-critical is for the host's own components" in told
    assert podgroup.remarks(group(), VIEW) == podgroup.remarks(group(priorityClassName="batch"), VIEW) == []


def test_item_91_a_pods_group_is_among_what_it_refers_to() -> None:
    assert Reference("PodGroup", "team", "gang") in references.of_pod(POD)
    assert not [each for each in references.of_pod(samples.pod()) if each.kind == "PodGroup"]
