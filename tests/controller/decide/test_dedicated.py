"""Dedicated nodes: whose each is, when it is marked and given back, and what tenants are told. State in, state out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.conditions import Reason
from controller.decide import dedicated
from controller.decide.dedicated import KEY, Claim, Finding, HostNode, Mark, Running
from controller.host import dedication
from controller.host.dedication import Offers, of_node
from controller.settings import Settings
from tests.kit.statuses import Findings, compute
from tests.kit.tenantsamples import NOW, plane_for, plane_spec, tenant, tenant_class

OTHER_TAINT = {"key": "nvidia.com/gpu", "effect": "NoSchedule", "timeAdded": "2026-06-01T00:00:00Z"}


def node(name: str, pool: str = "a", *, taint: str | None = None, label: str | None = None, **more: str) -> HostNode:
    labels = {"pool": pool} | more | ({KEY: label} if label else {})
    own = [{"key": KEY, "value": taint, "effect": "NoSchedule"}] if taint is not None else []
    return HostNode(name, "7", labels, (OTHER_TAINT, *own), {"nvidia.com/gpu": "8"})


def claim(name: str, since: str = "1", *, most: int | None = None, active: bool = True, **selector: str) -> Claim:
    return Claim(name, since, active, selector or {"pool": "a"}, most, ("nvidia.com/gpu",))


def marked(
    nodes: list[HostNode], claims: list[Claim], running: Running | None = None
) -> dict[str, tuple[str | None, str | None]]:
    """The marks that are written, as taint and label."""
    found = dedicated.marks(nodes, dedicated.allot(nodes, claims), running or {})
    return {each.node.name: (each.taint, each.label) for each in found}


def told(nodes: list[HostNode], claims: list[Claim], running: Running | None = None) -> Mapping[str, Finding]:
    return dedicated.findings(nodes, claims, dedicated.allot(nodes, claims), running or {})


def test_a_node_is_tainted_first_and_labelled_when_no_other_tenant_runs_there() -> None:
    red = [claim("red")]
    assert marked([node("n1"), node("n2", "b")], red) == {"n1": ("red", None)}
    tainted = [node("n1", taint="red")]
    assert dedicated.to_be_emptied(tainted, dedicated.allot(tainted, red)) == (("n1", "red"),)
    assert marked(tainted, red) == {}
    assert marked(tainted, red, {"n1": {"blue": 2}}) == {}
    assert marked(tainted, red, {"n1": {}}) == {"n1": ("red", "red")}
    whole = [node("n1", taint="red", label="red")]
    assert marked(whole, red) == {}
    assert dedicated.to_be_emptied(whole, dedicated.allot(whole, red)) == ()


@pytest.mark.parametrize("taint", [None, "red"])
@pytest.mark.parametrize("label", [None, "red"])
def test_whatever_a_dead_controller_left_goes_back_when_no_tenant_claims_it(taint: str | None, label: str | None) -> None:
    there = [node("n1", taint=taint, label=label)]
    expected = {"n1": (None, None)} if taint or label else {}
    for claims in ([], [claim("red", pool="b")], [claim("blue", pool="c")]):
        assert marked(there, claims) == expected


def test_what_an_outside_hand_took_away_is_put_back() -> None:
    red = [claim("red")]
    assert marked([node("n1", label="red")], red) == {"n1": ("red", "red")}
    assert marked([node("n1", taint="red", label="blue")], red) == {"n1": ("red", None)}
    softer = replace(node("n1", label="red"), taints=({"key": KEY, "value": "red", "effect": "PreferNoSchedule"},))
    assert marked([softer], red) == {"n1": ("red", "red")}


def test_a_tenant_that_may_not_be_changed_keeps_what_it_has_and_takes_nothing() -> None:
    still = [claim("red", active=False)]
    assert marked([node("n1", taint="red", label="red"), node("n2", taint="red"), node("n3")], still) == {}
    assert marked([node("n1", taint="red", label="red")], [*still, claim("blue")]) == {}
    (finding,) = told([node("n1", taint="red", label="red")], [*still, claim("blue")]).values()
    assert finding.refusing is not None
    assert "overlaps that of tenant red in n1" in finding.refusing.message


def test_of_two_claims_on_one_node_the_older_has_it_and_the_other_is_refused_with_both_names() -> None:
    claims = [claim("blue", "2"), claim("red", "1", zone="1")]
    nodes = [node("n1", zone="1"), node("n2")]
    assert marked(nodes, claims) == {"n1": ("red", None)}
    findings = told(nodes, claims)
    assert findings["red"].refusing is None
    refusing = findings["blue"].refusing
    assert refusing is not None
    assert refusing.reason is Reason.NODES_TAKEN
    assert "overlaps that of tenant red in n1" in refusing.message


def test_a_tenant_that_has_a_node_already_keeps_it_from_an_older_claim() -> None:
    nodes = [node("n1", taint="blue", label="blue"), node("n2")]
    claims = [claim("blue", "2"), claim("red", "1")]
    assert marked(nodes, claims) == {}
    findings = told(nodes, claims)
    assert findings["blue"].nodes == ("n1",)
    assert all(findings[name].refusing is not None for name in ("red", "blue"))


def test_a_pool_beyond_what_the_class_gives_is_refused_with_both_numbers() -> None:
    nodes = [node("n1", taint="red", label="red"), node("n2"), node("n3")]
    assert marked(nodes, [claim("red", most=3)]) == {"n2": ("red", None), "n3": ("red", None)}
    assert marked(nodes, [claim("red", most=2)]) == {}
    refusing = told(nodes, [claim("red", most=2)])["red"].refusing
    assert refusing is not None
    assert refusing.reason is Reason.OUT_OF_BOUNDS
    assert all(
        word in refusing.message for word in ("3 nodes", "pool=a", "more than the 2 that the class allows (nodes.maxDedicated)")
    )


def test_a_patch_keeps_the_taints_of_others_and_holds_for_the_version_that_was_seen() -> None:
    patch = Mark(node("n1", taint="blue"), "red", None).patch()
    assert patch["metadata"] == {"resourceVersion": "7", "labels": {KEY: None}}
    assert patch["spec"]["taints"] == [OTHER_TAINT, {"key": KEY, "value": "red", "effect": "NoSchedule"}]
    bare = replace(node("n1", taint="blue"), taints=({"key": KEY, "value": "blue", "effect": "NoSchedule"},))
    assert Mark(bare, None, None).patch()["spec"] == {"taints": None}


def test_a_tenant_reads_its_nodes_their_gpus_and_who_still_runs_there() -> None:
    nodes = [node("n1", taint="red", label="red"), node("n2", taint="red"), node("n3", taint="red")]
    finding = told(nodes, [claim("red")], {"n2": {"blue": 2, "green": 1}})["red"]
    assert (finding.nodes, finding.gpus, finding.complete) == (("n1",), 8, False)
    assert finding.message() == (
        "1 nodes with 8 GPUs are dedicated to this tenant; waiting for pods of other tenants to end: "
        "n2 (2 of tenant blue, 1 of tenant green), n3"
    )
    assert told([node("n1", "b")], [claim("red")])["red"].message() == "no node of the host has the labels pool=a"


def test_the_status_tells_of_them_and_forgets_them() -> None:
    finding = Finding(nodes=("n1",), gpus=8, selector="pool=a")
    made = compute(tenant(), plane_spec(), Findings(nodes=finding), NOW)
    assert made["dedicated"] == {"nodes": 1, "gpus": 8, "names": ["n1"], "waiting": 0}
    assert [each["status"] for each in made["conditions"] if each["type"] == "NodesDedicated"] == ["True"]
    after = compute(tenant(status=made), plane_spec(), Findings(), NOW)
    assert after["dedicated"] is None
    assert not [each for each in after["conditions"] if each["type"] == "NodesDedicated"]


# -- from a Tenant to its claim

POOL = {"selector": {"team": "red"}, "dedicated": True}
OFFER = tenant_class(nodes={"selector": {"pool": "a"}, "maxDedicated": 3})


def claimed(asked: dict[str, Any], offer: dict[str, Any] | None = OFFER) -> Claim | None:
    offers = Offers(lambda _: offer, lambda _: None, lambda _: None)
    return dedication.claimed(asked, offers, Settings(), NOW).claim


def test_a_claim_is_the_selector_of_class_and_tenant_together() -> None:
    found = claimed(tenant(nodes=POOL))
    assert found is not None
    assert (found.active, found.selector, found.most) == (True, {"pool": "a", "team": "red"}, 3)
    assert claimed(tenant(nodes={"selector": {"team": "red"}})) is None
    whole = claimed(tenant(), tenant_class(nodes={"selector": {"pool": "a"}, "dedicated": True}))
    assert whole is not None
    assert (whole.active, whole.most) == (True, None)


def test_what_is_refused_paused_or_on_its_way_out_keeps_its_nodes() -> None:
    leaving = tenant(nodes=POOL)
    leaving["metadata"]["deletionTimestamp"] = "2026-06-01T12:00:00Z"
    paused = tenant(nodes=POOL, pausedUntil="2026-06-01T13:00:00Z")
    refused = tenant(nodes=POOL | {"selector": {"pool": "b"}})
    for asked, offer in ((leaving, OFFER), (paused, OFFER), (refused, OFFER), (tenant(nodes=POOL), None)):
        found = claimed(asked, offer)
        assert found is not None
        assert not found.active
        assert not found.wants(node("n1", "a", team="red"))


def test_one_that_is_held_claims_its_pool_unless_it_is_held_for_that() -> None:
    runs = {"class": {"name": "standard"}}
    found = claimed(tenant(nodes=POOL, controlPlane={"replicas": 3}, status=runs))
    assert found is not None
    assert (found.active, found.selector) == (True, {"pool": "a", "team": "red"})
    forced = tenant_class(nodes={"selector": {"pool": "a"}, "dedicated": True})
    found = claimed(tenant(nodes={"dedicated": False}, status=runs), forced)
    assert found is not None
    assert found.active
    for asked in ({"nodes": POOL | {"selector": {"pool": "b"}}, "status": runs}, {"nodes": {"dedicated": False}}):
        found = claimed(tenant(**asked), forced)
        assert found is not None
        assert not found.active


def test_an_edit_that_is_refused_claims_what_was_accepted_before() -> None:
    runs = {"class": {"name": "standard"}}
    before = tenant(nodes=POOL, status=runs)
    offers = Offers(lambda _: OFFER, lambda _: None, lambda _: before)
    narrower = POOL | {"selector": {"team": "red", "rack": "7"}}
    refused = dedication.claimed(tenant(nodes=narrower, quota={"cohort": "demoo"}, status=runs), offers, Settings(), NOW)
    assert refused == dedication.Claimed(claimed(before))
    # A claim that has not been refused yet counts as requested; the earlier one is kept in case another tenant has the nodes.
    edited = dedication.claimed(tenant(nodes=narrower, status=runs), offers, Settings(), NOW)
    assert edited.claim is not None
    assert edited.claim.selector == {"pool": "a", "team": "red", "rack": "7"}
    assert (edited.edited, edited.before) == (True, claimed(before))


def test_flavors_of_a_cohort_are_judged_by_the_cohort() -> None:
    flavors = [{"name": "h100", "nominal": 4}]
    quota = {"cohort": "c", "resources": {"nvidia.com/gpu": {"nominal": 4, "flavors": flavors}}}
    offer = OFFER | {"spec": OFFER["spec"] | {"quota": {"cohorts": ["c"], "resources": {"nvidia.com/gpu": {"maxNominal": 8}}}}}
    rules = {"flavors": [{"name": "h100", "resource": "nvidia.com/gpu", "nodeLabels": {}}]}
    cohort = {"metadata": {"name": "c"}, "spec": rules}
    asked = tenant(quota=quota, nodes=POOL, status={"class": {"name": "standard"}})
    earlier = tenant(nodes=POOL | {"selector": {"team": "blue"}}, status={"class": {"name": "standard"}})
    for known, team in ((cohort, "red"), (None, "blue")):
        offers = Offers(lambda _: offer, lambda name, known=known: known if name == "c" else None, lambda _: earlier)
        found = dedication.claimed(asked, offers, Settings(), NOW).claim
        assert found is not None
        assert found.selector["team"] == team


def test_a_tenant_that_requests_nodes_of_others_keeps_its_own() -> None:
    nodes = [node("n1", taint="red", label="red"), node("n2", "b", taint="blue", label="blue"), node("n3", "c")]
    asked = [claim("red", pool="b"), claim("blue", "2", pool="b")]
    held, allotment, refused = dedicated.settled(nodes, asked, {"red": claim("red", pool="a")})
    assert {each.tenant: each.selector for each in held} == {"red": {"pool": "a"}, "blue": {"pool": "b"}}
    assert allotment.owners == {"n1": "red", "n2": "blue"}
    assert (allotment.refused, refused["red"].reason) == ({}, Reason.NODES_TAKEN)
    assert dedicated.marks(nodes, allotment, {}) == ()
    # What had no nodes gets none; and of an edit that is not refused nothing is taken back.
    held, allotment, _ = dedicated.settled(nodes, asked, {"red": None})
    assert [each.tenant for each in held] == ["blue"]
    held, allotment, refused = dedicated.settled(nodes, [claim("red", pool="c"), asked[1]], {"red": claim("red", pool="a")})
    assert (allotment.owners, refused) == ({"n2": "blue", "n3": "red"}, {})
    # Nor does a second tenant lose what it has by the first one's claim coming back.
    moves = [claim("red", pool="b"), claim("green", "0", pool="a"), claim("blue", "2", pool="b")]
    _, allotment, refused = dedicated.settled(nodes, moves, {"red": claim("red", pool="a"), "green": claim("green", pool="c")})
    assert (allotment.owners, refused.keys()) == ({"n1": "red", "n2": "blue", "n3": "green"}, {"red", "green"})


def test_the_tenants_pods_ask_for_its_own_nodes_and_tolerate_their_taint() -> None:
    spec = plane_for(tenant(nodes=POOL), OFFER)
    assert dict(spec.enforced_selector) == {"pool": "a", "team": "red", KEY: "team-a"}
    assert spec.enforced_tolerations == ({"key": KEY, "operator": "Equal", "value": "team-a", "effect": "NoSchedule"},)
    shared = plane_for(tenant(), OFFER)
    assert (dict(shared.enforced_selector), shared.enforced_tolerations) == ({"pool": "a"}, ())


def test_little_is_kept_of_a_node() -> None:
    raw = msgspec.json.encode(
        {
            "metadata": {"name": "n", "labels": {"a": "b"}, "annotations": {"x": "y" * 99_999}, "resourceVersion": "7"},
            "spec": {"taints": [OTHER_TAINT], "podCIDR": "10.0.0.0/24"},
            "status": {"allocatable": {"nvidia.com/gpu": "8"}, "images": [{"names": ["x" * 99_999]}]},
        }
    )
    meta, body = of_node(raw, None)
    assert (meta.name, meta.labels, meta.annotations, meta.resource_version) == ("n", {"a": "b"}, None, "7")
    assert len(body) < 200
    assert of_node(msgspec.json.encode({"metadata": {"name": "n"}}), None)[1] == b'{"taints":[],"allocatable":{}}'


# -- laws

names = st.sampled_from(["red", "blue"])
pools = st.sampled_from(["a", "b"])
marks = st.one_of(st.none(), names, st.just("gone"))
worlds = st.lists(
    st.builds(lambda pool, zone, taint, label: (pool, zone, taint, label), pools, pools, marks, marks), max_size=4
)
claims = st.dictionaries(
    names,
    st.builds(
        lambda selector, active, most: (selector, active, most),
        st.sampled_from([{"pool": "a"}, {"pool": "b"}, {"zone": "a"}, {"pool": "a", "zone": "b"}]),
        st.booleans(),
        st.one_of(st.none(), st.integers(0, 3)),
    ),
)


@given(worlds, claims)
def test_it_comes_to_rest_and_no_node_is_ever_two_tenants(world: Any, asked: Any) -> None:
    nodes = [
        node(f"n{number}", pool, taint=taint, label=label, zone=zone) for number, (pool, zone, taint, label) in enumerate(world)
    ]
    wanted = [Claim(name, name, active, selector, most) for name, (selector, active, most) in asked.items()]
    for _ in range(6):
        running: Running = {each.name: {} for each in nodes}
        found = dedicated.marks(nodes, dedicated.allot(nodes, wanted), running)
        if not found:
            break
        news = {each.node.name: each for each in found}
        nodes = [_after(each, news.get(each.name)) for each in nodes]
    else:
        pytest.fail("it never came to rest")
    active = {each.tenant: each for each in wanted}
    for each in nodes:
        assert each.labelled_for in (None, each.tainted_for)
        holder = each.tainted_for
        if holder is not None:
            assert not active[holder].active or active[holder].wants(each)
    # Who was not refused has all of its pool.
    refused = dedicated.allot(nodes, wanted).refused
    for one in wanted:
        if one.tenant not in refused:
            assert all(each.labelled_for == one.tenant for each in nodes if one.wants(each))


def _after(before: HostNode, mark: Mark | None) -> HostNode:
    if mark is None:
        return before
    patch = mark.patch()
    labels = {key: value for key, value in ({**before.labels, **patch["metadata"]["labels"]}).items() if value is not None}
    return replace(before, labels=labels, taints=tuple(patch["spec"]["taints"] or ()))


def chosen(uid: str, tenant: str, at: str = "n1", **notes: str) -> dict[str, Any]:
    """The metadata of a claim whose pod has chosen a node."""
    annotations = {"volume.kubernetes.io/selected-node": at} | notes
    return {"metadata": {"uid": uid, "labels": {KEY: tenant}, "annotations": annotations}}


def test_pods_that_have_chosen_a_node_and_wait_for_their_volume_come_to_it() -> None:
    bound = chosen("4", "blue", **{"pv.kubernetes.io/bind-completed": "yes"})
    claims = [chosen("1", "blue"), chosen("2", "blue"), chosen("3", "green", "n2"), bound, chosen("5", "red")]
    claims += [{"metadata": {"uid": "6", "labels": {KEY: "blue"}}}, {"metadata": {}}, {}]
    found = dedicated.coming(claims, {}, 0.0)
    assert (found.to("n1", "red"), found.to("n2", "red"), found.to("n3", "red")) == ({"blue": 2}, {"green": 1}, {})
    # Its owner's own pods do not keep a node from it.
    assert found.to("n1", "blue") == {"red": 1}


def test_a_volume_that_is_never_made_keeps_a_node_for_as_long_as_a_scheduler_waits() -> None:
    claims = [chosen("1", "blue")]
    found = dedicated.coming(claims, {}, 100.0)
    again = dedicated.coming(claims, found.since, 999.0)
    assert again.to("n1", "red") == {"blue": 1}
    late = dedicated.coming([*claims, chosen("2", "green")], again.since, 1001.0)
    assert late.to("n1", "red") == {"green": 1}
    # One that is gone and comes back is another choice.
    assert dedicated.coming([], late.since, 1002.0).since == {}
