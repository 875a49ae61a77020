"""A pod tolerates the taints that its tenant's class allows, and no others; what did not pass is told."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.objects import Obj
from syncer.translate import Toleration
from syncer.translate.kinds import podstatus as status
from syncer.translate.kinds.pod import to_host
from syncer.translate.podspec import tolerations
from tests.kit import translationsamples as samples

RESERVED = {"key": "example.com/reserved-for", "operator": "Exists"}
EVERYTHING = {"operator": "Exists"}
# What the DaemonSet controller and the admission of every plane add.
HABITS: list[Obj] = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
] + [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]


def narrowed(*asked: Obj, **view: Any) -> str:
    return tolerations.narrowed({"tolerations": list(asked)}, samples.view(view))


def test_item_39_no_pod_tolerates_an_admins_reserving_taint() -> None:
    host = to_host(samples.pod({"tolerations": [RESERVED, EVERYTHING]}), samples.VIEW)
    assert not any(
        tolerations.tolerates(each, {"key": RESERVED["key"], "value": "x", "effect": "NoSchedule"}) for each in _of(host)
    )


def test_item_39_where_the_class_allows_it_it_passes_as_it_is() -> None:
    view = samples.view({"allowed_tolerations": [{"key": RESERVED["key"], "operator": "Exists"}]})
    asked = {"key": RESERVED["key"], "operator": "Equal", "value": "red", "effect": "NoExecute", "tolerationSeconds": 5}
    assert asked in _of(to_host(samples.pod({"tolerations": [asked]}), view))
    assert narrowed(asked, allowed_tolerations=[{"key": RESERVED["key"], "operator": "Exists"}]) == ""


def test_item_39_the_pod_reads_what_was_narrowed_and_to_what() -> None:
    told = narrowed(EVERYTHING, RESERVED, allowed_tolerations=[{"key": "kwok", "effect": "NoSchedule"}])
    assert told == (
        "spec.tolerations: every taint, example.com/reserved-for not tolerated as asked: this tenant's pods may tolerate "
        "nvidia.com/gpu:NoSchedule, kwok:NoSchedule, node.kubernetes.io/not-ready, node.kubernetes.io/unreachable"
    )


@pytest.mark.parametrize(
    "asked",
    [
        [],
        HABITS,
        [{"key": "team", "operator": "Exists"}],
        [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    ],
)
def test_nothing_is_told_where_nothing_is_missing(asked: list[Obj]) -> None:
    assert narrowed(*asked) == ""


def test_a_toleration_of_the_tenants_own_taint_stays_behind_without_a_word() -> None:
    taint = {"key": "team.example/repair", "effect": "NoExecute"}
    own = {"key": "team.example/repair", "operator": "Exists"}
    assert narrowed(own) != ""
    view = samples.view({"node_taints": {"gpu-a": (taint,)}})
    assert tolerations.narrowed({"tolerations": [own]}, view) == ""
    assert own not in _of(to_host(samples.pod({"tolerations": [own]}), view))


def test_a_pod_that_waits_for_a_node_says_so_in_its_condition() -> None:
    virtual = samples.pod({"tolerations": [RESERVED]})
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
    host = to_host(virtual, samples.VIEW) | {"status": {"phase": "Pending", "conditions": [waiting]}}
    (condition,) = status.status_to_virtual(host, virtual, samples.VIEW)["conditions"]
    assert condition["message"].startswith("0/3 nodes are available; spec.tolerations: example.com/reserved-for not tolerated")


def test_a_flood_of_tolerations_makes_few_words() -> None:
    assert len(narrowed(*({"key": f"{number}.example/{'x' * 290}", "operator": "Exists"} for number in range(999)))) < 1024


KEYS = st.sampled_from(["", "a", "b"])
VALUES = st.sampled_from(["", "1", "2"])
EFFECTS = st.sampled_from(["", "NoSchedule", "NoExecute"])
TAINTS = [
    {"key": key, "value": value, "effect": effect}
    for key in ("a", "b", "c")
    for value in ("", "1", "2")
    for effect in ("NoSchedule", "NoExecute")
]


@st.composite
def asked(draw: st.DrawFn) -> Obj:
    key, exists = draw(KEYS), draw(st.booleans())
    found: Obj = {"key": key, "effect": draw(EFFECTS)}
    found |= {"operator": "Exists"} if exists or not key else {"operator": "Equal", "value": draw(VALUES)}
    return {field: value for field, value in found.items() if value}


limits = st.builds(
    lambda key, value, effect, exists: (
        Toleration(key, "Exists", effect=effect) if exists else Toleration(key, "Equal", value, effect)
    ),
    st.sampled_from(["a", "b"]),
    VALUES,
    EFFECTS,
    st.booleans(),
)


@given(st.lists(asked(), max_size=4), st.lists(limits, max_size=3))
def test_a_taint_is_tolerated_if_the_pod_asks_for_it_and_the_class_allows_it(own: list[Obj], allowed: list[Toleration]) -> None:
    view = replace(samples.VIEW, enforced_tolerations=(), allowed_tolerations=tuple(allowed))
    got = tolerations.of_pod({"tolerations": own}, view)
    for taint in TAINTS:
        wanted = any(tolerations.tolerates(each, taint) for each in own)
        permitted = any(tolerations.tolerates(each.to_obj(), taint) for each in allowed)
        assert any(tolerations.tolerates(each, taint) for each in got) is (wanted and permitted)
    # And the words agree: nothing is told exactly where nothing that was asked for is missing.
    if not tolerations.narrowed({"tolerations": own}, view):
        assert all(
            any(tolerations.tolerates(each, taint) for each in got)
            for taint in TAINTS
            if any(tolerations.tolerates(each, taint) for each in own)
        )


def _of(host: Obj) -> list[Obj]:
    found: list[Obj] = host["spec"]["tolerations"]
    return found
