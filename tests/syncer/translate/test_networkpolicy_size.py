"""What tenants write about their network is bounded: each policy and all together, whatever they write it with."""

from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from syncer.translate import Reason, Untranslatable
from syncer.translate.kinds.networkpolicy import MOST_TERMS, MOST_TERMS_OF_TENANT, beyond, terms, to_host
from tests.kit.helmchart import ROOT
from tests.kit.translationsamples import VIEW


def policy(name: str = "p", created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Obj:
    meta = {"name": name, "namespace": "team", "uid": f"uid-{name}", "creationTimestamp": created}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": {"podSelector": {}} | spec}


def peer(number: int) -> Obj:
    return {"podSelector": {"matchLabels": {"app": f"a{number}"}}}


def block(holes: int) -> Obj:
    return {"ipBlock": {"cidr": "10.0.0.0/8", "except": [f"10.{each // 250}.{each % 250}.0/24" for each in range(holes)]}}


MANY = MOST_TERMS + 1
TOO_MUCH: dict[str, Obj] = {
    "rules": policy(ingress=[{"ports": [{"port": 1}] * 11}] * (MANY // 10)),
    "rules that say nothing": policy(ingress=[{}] * MANY),
    "peers": policy(ingress=[{"from": [peer(each) for each in range(450)]} for _ in range(5)]),
    "ports": policy(egress=[{"ports": [{"protocol": "TCP", "port": each} for each in range(450)]} for _ in range(3)]),
    "exceptions": policy(egress=[{"to": [block(MANY)]}]),
    "values": policy(
        podSelector={"matchExpressions": [{"key": "a", "operator": "In", "values": [str(each) for each in range(MANY)]}]}
    ),
    "labels": policy(podSelector={"matchLabels": {f"k{each}": "v" for each in range(MANY)}}),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_too_much_is_refused_and_says_what_to_do(name: str) -> None:
    with pytest.raises(Untranslatable) as refused:
        to_host(TOO_MUCH[name], VIEW)
    assert (refused.value.reason, refused.value.field) == (Reason.TOO_LARGE, "spec")
    assert str(MOST_TERMS) in refused.value.message


def test_what_is_within_the_bound_passes() -> None:
    own = policy(ingress=[{"from": [peer(each) for each in range(150)], "ports": [{"port": 80}]} for _ in range(10)])
    assert len(to_host(own, VIEW)["spec"]["ingress"]) == 10


def test_whatever_passes_is_within_the_bound_of_the_hosts_policy() -> None:
    """Each selector of the host has at most two labels more than the tenant's, which has one term or more."""
    own = policy(ingress=[{"from": [peer(number) for number in range(size)]} for size in (500, 500, 500, 499)])
    assert terms(own["spec"]) == MOST_TERMS
    spec = to_host(own, VIEW)["spec"]
    named = [spec["podSelector"], *(source["podSelector"] for rule in spec["ingress"] for source in rule["from"])]
    assert sum(len(selector["matchLabels"]) for selector in named) == 3 * MOST_TERMS - 1
    assert f"<= {3 * MOST_TERMS}\n" in (ROOT / "charts/bulkhead/templates/admission-networks.yaml").read_text()


def test_counting_stops_where_it_is_too_much_and_follows_no_depth() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    assert terms(deep) == 1
    assert terms([["x"] * 1_000_000] * 10) == MOST_TERMS + 1


def test_the_oldest_of_a_tenants_policies_come_first() -> None:
    size = MOST_TERMS // 2
    listed = [
        policy(f"p{each:02}", f"2026-01-01T00:{each:02}:00Z", ingress=[{"ports": [{"port": 1}] * 3}] * (size // 3))
        for each in range(30)
    ]
    assert terms(listed[0]["spec"]) == size
    room = MOST_TERMS_OF_TENANT // size
    late = {("team", f"p{each:02}") for each in range(room, 30)}
    assert beyond(listed) == beyond(reversed(listed)) == late
    # What is refused for itself takes no room, and what is small finds some.
    assert beyond([policy("big", "2025-01-01T00:00:00Z", ingress=[{}] * MANY), *listed]) == late
    assert beyond([*listed[:room], policy("z", "2027-01-01T00:00:00Z")]) == {("team", "z")}
    assert beyond([*listed[1:room], policy("z", "2027-01-01T00:00:00Z")]) == frozenset()
    crowded = replace(VIEW, policies_beyond=beyond(listed))
    assert to_host(listed[0], crowded)
    with pytest.raises(Untranslatable) as refused:
        to_host(listed[-1], crowded)
    assert (refused.value.reason, str(MOST_TERMS_OF_TENANT) in refused.value.message) == (Reason.TOO_LARGE, True)
