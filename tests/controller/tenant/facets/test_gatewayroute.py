"""What a Tenant says of its TLSRoute, by what Gateways write into its status; some leave the words out."""

from dataclasses import replace
from typing import Any

import pytest

from controller.plane.spec import PlaneSpec
from controller.plane.ways import Exposure, Gateway
from controller.tenant.facets.exposure.gatewayroute import trouble
from tests.kit.tenantsamples import plane_spec

GATEWAY = Gateway("infra", "public", "tls")
OWN = {"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "infra", "name": "public", "sectionName": "tls"}
TAKEN = {"type": "Accepted", "status": "True", "reason": "Accepted"}
FOUND = {"type": "ResolvedRefs", "status": "True", "reason": "ResolvedRefs"}


def plane() -> PlaneSpec:
    return plane_spec(exposure=Exposure("Gateway", ("team-a.k8s.example.org",), gateway=GATEWAY, route_version="v1"))


def route(*parents: Any, generation: int = 2) -> dict[str, Any]:
    return {"metadata": {"generation": generation}, "status": {"parents": list(parents)}}


def parent(*conditions: Any, **ref: Any) -> dict[str, Any]:
    return {"parentRef": OWN | ref, "controllerName": "example.net/gateway", "conditions": list(conditions)}


def told(*parents: Any, gateway: Gateway = GATEWAY) -> str:
    return trouble(plane(), gateway, route(*parents))


def refused(reason: str, message: str = "", type_: str = "Accepted") -> dict[str, Any]:
    return {"type": type_, "status": "False", "reason": reason, "message": message}


@pytest.mark.parametrize(
    "parents",
    [
        [parent(TAKEN, FOUND)],
        [parent(TAKEN)],
        [parent(TAKEN | {"observedGeneration": 2}, FOUND | {"observedGeneration": 2})],
        # Two controllers of one Gateway; a former Gateway that was never removed.
        [parent(refused("NotAllowedByListeners")), parent(TAKEN, FOUND)],
        [parent(refused("NoMatchingParent"), name="former"), parent(TAKEN, FOUND)],
    ],
)
def test_a_route_that_its_gateway_takes(parents: list[Any]) -> None:
    assert told(*parents) == ""


@pytest.mark.parametrize(
    "parents",
    [
        [],
        [parent(TAKEN, FOUND, name="former")],
        [parent(TAKEN, FOUND, namespace="elsewhere")],
        [parent(TAKEN, FOUND, sectionName="other")],
        [parent()],
        ["x", None, {"parentRef": "x", "conditions": [TAKEN]}, {"parentRef": {"name": ["public"]}}],
    ],
)
def test_what_others_say_of_a_route_does_not_count(parents: list[Any]) -> None:
    said = told(*parents)
    assert said.startswith("Gateway infra/public, listener tls, has not reported")
    assert "kubectl -n infra get gateway public" in said


def test_what_was_said_of_an_earlier_route_does_not_count() -> None:
    old = TAKEN | {"observedGeneration": 1}
    assert "has not reported yet whether it accepts the current route" in told(parent(old, FOUND))
    assert told(parent(refused("NotAllowedByListeners") | {"observedGeneration": 1})).startswith(
        "Gateway infra/public, listener tls, has not reported yet"
    )
    # Of implementations that count no generations, what they say is what there is.
    assert told(parent(TAKEN | {"observedGeneration": 0})) == ""
    assert told(parent(TAKEN | {"observedGeneration": "1"})) == ""


def test_a_gateway_of_the_routes_own_namespace_may_leave_it_out() -> None:
    own = Gateway("bh-team-a", "public")
    assert told({"parentRef": {"name": "public"}, "conditions": [TAKEN]}, gateway=own) == ""
    assert told({"parentRef": {"name": "public"}, "conditions": [TAKEN]}) != ""


REFUSALS = {
    "NotAllowedByListeners": "from: Selector and the label app.kubernetes.io/managed-by=bulkhead",
    "NoMatchingListenerHostname": "protocol TLS, tls.mode Passthrough and hostname *.k8s.example.org, or none",
    "NoMatchingParent": "name a listener that Gateway infra/public has",
    "UnsupportedValue": "fix what it reports",
    "BackendNotFound": "see Service bh-team-a/plane and its EndpointSlices",
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refusal_is_told_with_what_to_do_though_the_gateway_says_one_word(reason: str) -> None:
    said = told(parent(refused(reason), FOUND))
    assert f"does not accept the route: {reason}; next: " in said
    assert REFUSALS[reason] in said
    assert f"{reason}: in its words; next: " in told(parent(refused(reason, "in its words"), FOUND))


def test_a_route_that_is_taken_and_leads_nowhere_is_told() -> None:
    said = told(parent(TAKEN, refused("BackendNotFound", "no such Service", "ResolvedRefs")))
    assert (
        "accepts the route, but forwards nothing: BackendNotFound: no such Service; next: see Service bh-team-a/plane" in said
    )
    unready = refused("EndpointsNotFound", "no ready endpoints for the related Service bh-team-a/plane", "ResolvedRefs")
    assert "bh-team-a/plane; next: see Service bh-team-a/plane and its EndpointSlices" in told(parent(TAKEN, unready))


def test_what_envoy_gateway_said_of_a_listener_that_the_route_named_before_does_not_count() -> None:
    """It keeps that entry, accepted, beside the one of the listener that the route names now."""
    former = parent(TAKEN | {"observedGeneration": 1}, FOUND | {"observedGeneration": 1})
    now = refused("NoMatchingParent", "No listeners match this parent ref") | {"observedGeneration": 2}
    other = Gateway("infra", "public", "other")
    assert "does not accept the route: NoMatchingParent" in told(former, parent(now, FOUND, sectionName="other"), gateway=other)


def test_a_gateway_that_is_gone_counts_whatever_it_said_before() -> None:
    """Contour leaves in the route's status that it was accepted."""
    taken = route(parent(TAKEN, FOUND))
    assert trouble(plane(), GATEWAY, taken, {}).startswith(
        "Gateway infra/public, listener tls, does not exist; next: create it"
    )
    # There, or not to be known.
    for there in ({"metadata": {"generation": 1}}, None):
        assert trouble(plane(), GATEWAY, taken, there) == ""


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ({"status": "False", "reason": "AddressNotAssigned"}, "is not Programmed: AddressNotAssigned; next: fix"),
        ({"status": "False", "reason": "Invalid", "message": "no pool"}, "Invalid: no pool; next: fix the Gateway (kubectl"),
        ({"status": "False", "reason": "Invalid", "observedGeneration": 2}, ""),
        ({"status": "Unknown", "reason": "Pending"}, ""),
        ({"status": "True"}, ""),
    ],
)
def test_a_gateway_that_carries_nothing_is_told(condition: dict[str, Any], said: str) -> None:
    there = {"metadata": {"generation": 3}, "status": {"conditions": [{"type": "Programmed"} | condition]}}
    found = trouble(plane(), GATEWAY, route(parent(TAKEN, FOUND)), there)
    assert said in found
    assert bool(found) == bool(said)
    # What the route says comes first.
    assert "NoMatchingParent" in trouble(plane(), GATEWAY, route(parent(refused("NoMatchingParent"))), there)


def test_long_and_shapeless_words_are_bounded() -> None:
    assert len(told(parent(refused("x" * 100_000, "y" * 100_000)))) < 1500
    assert "no reason given" in told(parent({"type": "Accepted", "status": "False", "reason": 7, "message": ["x"]}))
    many = [parent(TAKEN, FOUND, name=f"g-{number}") for number in range(10_000)]
    assert told(*many, parent(TAKEN, FOUND)) != ""
    assert trouble(replace(plane()), GATEWAY, None).startswith("Gateway infra/public, listener tls, has not reported")
