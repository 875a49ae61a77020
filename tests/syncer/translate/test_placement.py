"""The tenant's own labels and taints of nodes, in a pod's affinity: the host comes to what the tenant's plane would."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from syncer.translate import Reason, TenantView, Untranslatable
from syncer.translate.kinds import nodemarks
from syncer.translate.kinds.pod import to_host
from syncer.translate.podspec import placement
from tests.kit import translationsamples as samples

HOST = {"a": {"zone": "1"}, "b": {"zone": "2"}, "c": {"zone": "2", "mine": "hidden"}, "d": {}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
KEYS = st.sampled_from(["zone", "mine", "other", "count"])
VALUES = st.sampled_from(["1", "2", "blue", "7"])
LABELS = st.dictionaries(st.sampled_from(["mine", "other", "count"]), VALUES, max_size=2)


def expressions() -> st.SearchStrategy[Obj]:
    one = st.builds(lambda key, operator, value: {"key": key, "operator": operator, "values": [value]},
                    KEYS, st.sampled_from(["In", "NotIn", "Gt", "Lt"]), VALUES)  # fmt: skip
    none = st.builds(
        lambda key, operator: {"key": key, "operator": operator}, KEYS, st.sampled_from(["Exists", "DoesNotExist"])
    )
    return one | none


def fields() -> st.SearchStrategy[Obj]:
    return st.builds(lambda operator, name: {"key": "metadata.name", "operator": operator, "values": [name]},
                     st.sampled_from(["In", "NotIn"]), st.sampled_from(sorted(HOST)))  # fmt: skip


TERMS = st.builds(
    lambda asked, named: {key: value for key, value in (("matchExpressions", asked), ("matchFields", named)) if value},
    st.lists(expressions(), max_size=2), st.lists(fields(), max_size=1),
)  # fmt: skip


def chosen(selector: Mapping[str, str], terms: list[Obj] | None, labels: Mapping[str, Mapping[str, str]]) -> set[str]:
    """What a scheduler finds: nodes with these labels that a pod with this selector and these required terms may go to."""

    def fits(name: str) -> bool:
        mine = labels[name]
        if any(mine.get(key) != value for key, value in selector.items()):
            return False
        return terms is None or any(_term(term, name, mine) for term in terms)

    return {name for name in labels if fits(name)}


def _term(term: Obj, name: str, labels: Mapping[str, str]) -> bool:
    asked = [*term.get("matchExpressions", ()), *term.get("matchFields", ())]
    return bool(asked) and all(_asked(each, labels | {"metadata.name": name}) for each in asked)


def _asked(each: Obj, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(each["key"]), each.get("values", [])
    if each["operator"] in {"Gt", "Lt"}:
        if value is None or not (value.isdigit() and values[0].isdigit()):
            return False
        return int(value) > int(values[0]) if each["operator"] == "Gt" else int(value) < int(values[0])
    found = {"In": value in values, "NotIn": value not in values, "Exists": value is not None, "DoesNotExist": value is None}
    return found[each["operator"]]


def view_of(own: Mapping[str, Mapping[str, str]], **more: Any) -> TenantView:
    labels = {name: dict(each) for name, each in own.items() if each}
    return samples.view({"nodes": list(HOST), "node_labels": labels, "enforced_node_selector": {}} | more)


def wishing(selector: Mapping[str, str], terms: list[Obj] | None) -> Obj:
    own: Obj = {"nodeSelector": dict(selector)}
    return samples.pod(own if terms is None else own | {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}})


def on_host(host: Obj, labels: Mapping[str, Mapping[str, str]] = HOST) -> set[str]:
    required = host["spec"].get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    return chosen(host["spec"].get("nodeSelector", {}), required and required["nodeSelectorTerms"], labels)


@given(
    st.dictionaries(KEYS, VALUES, max_size=2),
    st.none() | st.lists(TERMS, min_size=1, max_size=3),
    st.fixed_dictionaries(dict.fromkeys(HOST, LABELS)),
    st.sets(st.sampled_from(sorted(HOST)), max_size=2),
)
def test_item_37_a_selector_finds_on_the_host_the_nodes_that_it_finds_in_the_plane(
    selector: dict[str, str], terms: list[Obj] | None, own: dict[str, dict[str, str]], cordoned: set[str]
) -> None:
    view = view_of(own, cordoned=sorted(cordoned))
    # A key that stands on a node of the tenant is the tenant's on all of them, whatever the host has under it unseen.
    keys = frozenset().union(*own.values())
    above = {name: {key: value for key, value in HOST[name].items() if key not in keys} | own[name] for name in HOST}
    host = to_host(wishing(selector, terms), view)
    assert on_host(host) == chosen(selector, terms, above) - cordoned
    concerned = any(each["key"] in keys for term in terms or () for each in term.get("matchExpressions", ()))
    assert bool(placement.digest_of(host)) is (concerned or bool(set(selector) & keys) or bool(cordoned))


def test_item_37_a_node_that_comes_later_is_not_taken_for_one_with_the_label() -> None:
    host = to_host(wishing({"mine": "1"}, None), view_of({"a": {"mine": "1"}}))
    assert on_host(host, {**HOST, "new": {}}) == {"a"}
    assert "mine" not in host["spec"].get("nodeSelector", {})


def test_item_37_a_wish_for_the_tenants_own_label_is_one_for_each_node_that_has_it() -> None:
    term = {"matchExpressions": [{"key": "mine", "operator": "Exists"}, {"key": "zone", "operator": "In", "values": ["2"]}]}
    spec = {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 7, "preference": term}]}}}
    found = to_host(samples.pod(spec), view_of({"a": {"mine": "1"}, "b": {"mine": "2"}}))
    assert [(each["weight"], each["preference"]["matchFields"][0]["values"]) for each in
            found["spec"]["affinity"]["nodeAffinity"][PREFERRED]] == [(7, ["a"]), (7, ["b"])]  # fmt: skip
    assert not placement.digest_of(found)


def test_item_38_what_the_platform_enforces_is_not_the_tenants_to_answer() -> None:
    view = view_of({"a": {"pool": "mine"}}, enforced_node_selector={"pool": "team"})
    assert to_host(wishing({"pool": "mine"}, None), view)["spec"]["nodeSelector"] == {"pool": "team"}
    assert not placement.digest_of(to_host(wishing({"pool": "mine"}, None), view))


def test_item_37_the_pod_of_a_daemon_set_names_no_more_than_its_own_node() -> None:
    view = view_of({name: {"mine": "1"} for name in HOST})
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    host = to_host(wishing({"mine": "1"}, [here]), view)
    assert len(host["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]) == 1
    assert on_host(host) == {"b"}


def test_item_37_what_a_pod_was_made_for_changes_with_the_labels_that_it_asks_for_alone() -> None:
    def made_for(own: Obj, view: TenantView) -> str:
        return placement.digest_of(to_host(own, view))

    asks, other = wishing({"mine": "1"}, None), wishing({}, None)
    one, two = view_of({"a": {"mine": "1"}}), view_of({"a": {"mine": "1", "more": "x"}, "b": {"mine": "1"}})
    assert len({made_for(asks, one), made_for(asks, two), made_for(asks, view_of({}))}) == 3
    assert made_for(asks, two) == made_for(asks, view_of({"a": {"mine": "1"}, "b": {"mine": "1"}}))
    assert made_for(other, one) == made_for(other, two) == ""


def test_item_37_more_nodes_than_a_pod_can_name_are_told() -> None:
    names = [f"n{number}" for number in range(placement.MOST_NAMES + 1)]
    view = samples.view({"nodes": names, "node_labels": {name: {"mine": "1"} for name in names}})
    with pytest.raises(Untranslatable, match="1001 nodes") as refused:
        to_host(wishing({"mine": "1"}, None), view)
    assert refused.value.reason is Reason.TOO_LARGE


TAINT = {"key": "example.com/repair", "value": "yes", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("taint", "tolerations", "kept"),
    [
        (TAINT, [], True),
        (TAINT | {"effect": "NoSchedule"}, [], True),
        (TAINT | {"effect": "PreferNoSchedule"}, [], False),
        (TAINT, [{"key": "example.com/repair", "operator": "Exists"}], False),
        (TAINT, [{"key": "example.com/repair", "value": "no", "effect": "NoExecute"}], True),
        (TAINT, [{"key": "example.com/repair", "operator": "Exists", "effect": "NoSchedule"}], True),
    ],
)
def test_item_37_a_pod_is_kept_from_a_node_that_the_tenant_tainted(taint: Obj, tolerations: list[Obj], kept: bool) -> None:
    view = samples.view({"nodes": list(HOST), "node_taints": {"b": (taint,)}, "enforced_node_selector": {}})
    host = to_host(samples.pod({"tolerations": tolerations}), view)
    assert ("b" not in on_host(host)) is kept
    assert bool(placement.digest_of(host)) is kept
    assert placement.explanation(host, view) == ("; tainted in this cluster: b" if kept else "")
    assert placement.avoided({"nodeName": "b"}, view) == ()


NAMES = st.sampled_from(["x:NoSchedule", "y:NoExecute"])


@given(st.lists(st.tuples(st.sampled_from(["host", "tenant", "sync"]), NAMES, st.booleans())))
def test_item_59_a_taint_stays_while_the_host_or_the_tenant_wants_it(steps: list[tuple[str, str, bool]]) -> None:
    host: set[str] = set()
    mine: set[str] = set()
    node: Obj = {"metadata": {"annotations": {}}, "spec": {"taints": []}}

    def sync() -> None:
        found = nodemarks.decide_taints(node, [taint(each) for each in sorted(host)])
        node["spec"]["taints"] = found.taints
        node["metadata"]["annotations"] = {marks.HOST_TAINTS: found.annotation} if found.annotation else {}

    for who, name, there in steps:
        if who == "host":
            (host.add if there else host.discard)(name)
            # A taint that both want is the host's, and goes with it.
            mine.difference_update(host)
        elif who == "tenant" and there and name not in named(node):
            node["spec"]["taints"].append(taint(name))
            mine.add(name)
        elif who == "tenant" and not there:
            node["spec"]["taints"] = [each for each in node["spec"]["taints"] if each != taint(name)]
            mine.discard(name)
        sync()
    assert named(node) == host | mine
    assert {f"{each['key']}:{each['effect']}" for each in nodemarks.of_tenant(node).taints} == mine
    host.clear()
    sync()
    assert named(node) == mine
    assert not node["metadata"]["annotations"]


def taint(name: str) -> Obj:
    key, _, effect = name.partition(":")
    return {"key": key, "effect": effect}


def named(node: Obj) -> set[str]:
    return {f"{each['key']}:{each['effect']}" for each in node["spec"]["taints"]}


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_item_59_whatever_stands_on_a_node_is_settled(garbage: Any) -> None:
    for node in (
        {"metadata": garbage, "spec": garbage},
        {"metadata": {"labels": garbage, "annotations": {marks.HOST_TAINTS: garbage}}, "spec": {"taints": garbage}},
        {"metadata": {"labels": {"a": garbage}}, "spec": {"taints": [garbage, {"key": garbage, "effect": garbage}]}},
    ):
        assert nodemarks.decide_taints(node, [TAINT]).annotation == "example.com/repair:NoExecute"
        found = nodemarks.of_tenant(node)
        view = samples.view({"node_labels": {"gpu-a": found.labels}, "node_taints": {"gpu-a": found.taints}})
        placement.avoided({}, view)


def test_item_59_taints_of_the_platforms_own_kind_are_not_the_tenants_to_set() -> None:
    node = {"spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}}
    assert nodemarks.decide_taints(node, []).taints == []
