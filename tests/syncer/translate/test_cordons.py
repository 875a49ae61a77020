"""Two cordons of one node, and the pods that a tenant's cordon keeps away."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from syncer.translate import Reason, Untranslatable, diff
from syncer.translate.kinds import nodemarks
from syncer.translate.kinds import podstatus as status
from syncer.translate.kinds.pod import to_host
from syncer.translate.podspec import placement, tolerations
from tests.kit import translationsamples as samples

GPU_B = samples.view({"cordoned": ["gpu-b"]})
# What garbage is made of counts, not how much of it there is.
SHORT = st.text(max_size=5)
GARBAGE = st.recursive(st.none() | st.booleans() | SHORT, lambda inner: st.dictionaries(SHORT, inner), max_leaves=8)
NOT_B = {"key": "metadata.name", "operator": "NotIn", "values": ["gpu-b"]}


class Node:
    """A virtual node under a host, a tenant and a syncer."""

    def __init__(self) -> None:
        self.obj: Obj = {"metadata": {"annotations": {}}, "spec": {}}
        self.host = self.wish = False

    def tenant(self, wish: bool) -> None:
        if self.obj["spec"].get("unschedulable", False) is not wish:  # kubectl writes nothing where nothing changes
            self.wish = wish
            self.obj["spec"]["unschedulable"] = wish
        self.sync()

    def sync(self) -> None:
        found = nodemarks.decide_cordon(self.obj, by_host=self.host)
        self.obj = {
            "metadata": {"annotations": {marks.CORDONED_BY: found.annotation} if found.annotation else {}},
            "spec": {"unschedulable": found.unschedulable},
        }


@given(st.lists(st.tuples(st.sampled_from(["host", "tenant", "sync"]), st.booleans())))
def test_item_58_a_node_is_cordoned_while_the_host_or_the_tenant_wants_it(steps: list[tuple[str, bool]]) -> None:
    node = Node()
    for who, wish in steps:
        if who == "host":
            node.host = wish
        elif who == "tenant":
            node.tenant(wish)
        else:
            node.sync()
    node.sync()
    assert node.obj["spec"]["unschedulable"] is (node.host or node.wish)
    assert nodemarks.by_tenant(node.obj) is node.wish
    node.host = False
    node.sync()
    assert node.obj == {"metadata": {"annotations": {}}, "spec": {"unschedulable": node.wish}}


@given(GARBAGE, st.booleans())
def test_item_58_whatever_stands_on_a_node_is_settled(garbage: Any, by_host: bool) -> None:
    notes = [{marks.CORDONED_BY: garbage}, garbage]
    for node in [{"metadata": {"annotations": each}, "spec": {"unschedulable": garbage}} for each in notes]:
        found = nodemarks.decide_cordon(node, by_host=by_host)
        assert found.unschedulable is (by_host or garbage is True)
        assert by_host or not found.host_alone


def terms(own: Obj, view: Any = GPU_B) -> Any:
    affinity = to_host(own, view)["spec"].get("affinity", {}).get("nodeAffinity", {})
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")


def wishing(*own: Obj) -> Obj:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(own)}}
    return samples.pod({"affinity": {"nodeAffinity": required}})


def test_item_37_a_pod_is_kept_from_a_cordoned_node_whatever_else_it_wishes() -> None:
    assert terms(samples.pod()) == [{"matchFields": [NOT_B]}]
    assert terms(samples.pod(), samples.VIEW) is None
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    mine = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-a"]}]}
    assert terms(wishing(zone, mine, {})) == [
        zone | {"matchFields": [NOT_B]},
        {"matchFields": [*mine["matchFields"], NOT_B]},
        {},
    ]


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ({"nodeName": "gpu-b"}, False),
        ({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]}, False),
        ({"tolerations": [{"operator": "Exists"}]}, False),
        ({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}]}, True),
        ({"tolerations": [{"key": "other", "operator": "Exists"}]}, True),
    ],
)
def test_item_37_a_pod_that_tolerates_a_cordon_is_not_kept_away(spec: Obj, kept: bool) -> None:
    own = samples.pod(spec)
    found = to_host(own, GPU_B)
    assert (NOT_B in [field for term in terms(own) or () for field in term.get("matchFields", ())]) is kept
    assert bool(placement.digest_of(found)) is kept
    assert tolerations.of_pod(own["spec"], GPU_B) == tolerations.of_pod(own["spec"], samples.VIEW)


def test_item_37_more_cordons_than_a_pod_can_carry_are_told() -> None:
    many = samples.view({"cordoned": [f"n{number}" for number in range(placement.MOST_NAMES)]})
    assert len(terms(samples.pod(), many)[0]["matchFields"]) == placement.MOST_NAMES
    zone = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    with pytest.raises(Untranslatable, match="uncordon") as refused:
        to_host(wishing(zone, zone), many)
    assert refused.value.reason is Reason.TOO_LARGE
    to_host(samples.pod({"nodeName": "gpu-a"}), many)


def test_item_37_what_a_pod_was_made_to_avoid_is_noted_once() -> None:
    made = to_host(samples.pod(), GPU_B)
    assert placement.digest_of(made) != placement.digest_of(to_host(samples.pod(), samples.view({"cordoned": ["gpu-a"]})))
    for later in (samples.VIEW, samples.view({"cordoned": ["gpu-a"]})):
        assert diff.pod_patches(to_host(samples.pod(), later), made) == ()


def test_item_47_48_a_pod_that_finds_no_node_is_told_of_the_cordons() -> None:
    def message(host: Obj, view: Any) -> str:
        given = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
        found = status.status_to_virtual(host | {"status": {"conditions": [given]}}, samples.pod(), view)
        return str(found["conditions"][0]["message"])

    many = samples.view({"nodes": list("abcdefg"), "cordoned": list("abcdefg")})
    assert message(to_host(samples.pod(), GPU_B), GPU_B) == "0/2 nodes; cordoned in this cluster: gpu-b"
    assert message(to_host(samples.pod(), many), many) == "0/2 nodes; cordoned in this cluster: a, b, c, d, e and 2 more"
    assert message(to_host(samples.pod(), samples.VIEW), samples.VIEW) == "0/2 nodes"
