"""Hand-made endpoints: which of them belong to a pod of the tenant's, and which no longer do."""

from typing import Any

import pytest

from bulkhead.api.objects import Obj
from syncer.translate import mirrored
from syncer.translate.kinds import endpointslice
from syncer.translate.kinds.endpointslice import Holder
from syncer.translate.metadata import Identity
from syncer.translate.reasons import Reason, Untranslatable
from tests.kit import translationsamples as samples

NODE = min(samples.VIEW.nodes)
WEB = Identity("Pod", "team", "web", "uid-web")
OTHER = Identity("Pod", "team", "other", "uid-other")


def holder(name: str, who: Identity, node: str = NODE) -> Holder:
    return Holder(f"host-{name}", f"host-uid-{name}", node, who)


HOLDERS = {"10.244.0.9": (holder("web", WEB),), "fd00::9": (holder("web", WEB),), "10.244.0.7": (holder("other", OTHER),)}
OF_WEB = {"kind": "Pod", "namespace": samples.VIEW.work_namespace, "name": "host-web", "uid": "host-uid-web"}


def host_pod(**status: Any) -> Obj:
    given = {
        "phase": "Running",
        "hostIP": "172.31.255.1",
        "podIP": "10.244.0.9",
        "podIPs": [{"ip": "10.244.0.9"}, {"ip": "fd00::9"}],
    }
    return {"metadata": {"name": "host-web", "uid": "host-uid-web"}, "spec": {"nodeName": NODE}, "status": given | status}


def slice_of(*endpoints: Obj, **more: Any) -> Obj:
    meta = {"name": "a-1", "namespace": "team", "uid": "u", "labels": {mirrored.SERVICE_NAME: "a"}}
    return {"metadata": meta, "addressType": "IPv4", "endpoints": list(endpoints)} | more


def at(*addresses: str, **more: Any) -> Obj:
    return {"addresses": list(addresses)} | more


def test_a_running_pod_holds_its_addresses() -> None:
    assert endpointslice.held(host_pod(), WEB) == dict.fromkeys(("10.244.0.9", "fd00::9"), holder("web", WEB))


@pytest.mark.parametrize(
    "pod",
    [
        host_pod(phase="Succeeded"),
        host_pod(phase="Failed"),
        host_pod() | {"metadata": {"name": "x", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        host_pod() | {"spec": {}},
        host_pod() | {"spec": {"nodeName": NODE, "hostNetwork": True}},
        host_pod(podIP="172.31.255.1", podIPs=[{"ip": "172.31.255.1"}]),
        host_pod(podIP=None, podIPs=None),
        host_pod(podIP=7, podIPs=[7, {"ip": 7}, {}]),
    ],
)
def test_these_hold_none(pod: Obj) -> None:
    assert endpointslice.held(pod, WEB) == {}


def test_item_80_endpoints_at_own_pods_pass_and_name_the_pod() -> None:
    found = endpointslice.to_host(slice_of(at("10.244.0.9", nodeName="node-of-b", zone="z")), samples.VIEW, HOLDERS)
    assert found["endpoints"] == [{"addresses": ["10.244.0.9"], "zone": "z", "nodeName": NODE, "targetRef": OF_WEB}]
    assert found["metadata"]["labels"][mirrored.SERVICE_NAME] == samples.VIEW.host_name("Service", "team", "a")
    assert found["metadata"]["labels"][mirrored.MANAGED_BY] == "syncer.bulkhead.dev"


def test_the_oldest_of_a_tenants_slices_come_first() -> None:
    def made(number: int, endpoints: int, ports: int = 0) -> Obj:
        own = slice_of(*[at("10.244.0.9")] * endpoints, ports=[{"port": 1 + port} for port in range(ports)])
        meta = own["metadata"] | {"name": f"s{number}", "creationTimestamp": f"2026-01-01T00:00:{number:02}Z"}
        return own | {"metadata": meta}

    thousand = [endpointslice.place(made(number, 1000, 4)) for number in range(10)]
    assert {place.weight for place in thousand} == {4000}
    late = {("team", f"s{number}") for number in range(5, 10)}
    assert endpointslice.beyond(thousand) == endpointslice.beyond(reversed(thousand)) == late
    # What is too large for itself takes no room, and a slice without an endpoint takes some.
    assert endpointslice.beyond([endpointslice.place(made(0, 1000, 21)), *thousand[1:6]]) == {("team", "s0")}
    assert endpointslice.beyond([*thousand[:5], endpointslice.place(made(11, 0))]) == {("team", "s11")}
    assert endpointslice.beyond([*thousand[1:5], endpointslice.place(made(11, 0))]) == frozenset()
    endpointslice.check_room(made(1, 1), late)
    with pytest.raises(Untranslatable) as refused:
        endpointslice.check_room(made(9, 1), late)
    assert (refused.value.reason, str(endpointslice.MOST_OF_TENANT) in str(refused.value)) == (Reason.TOO_LARGE, True)


def test_an_endpoint_without_a_pod_leaves_the_others() -> None:
    own = slice_of(at("10.244.0.9"), at("10.244.0.8"), at("10.244.0.7"))
    found = endpointslice.to_host(own, samples.VIEW, HOLDERS)
    assert [each["addresses"] for each in found["endpoints"]] == [["10.244.0.9"], ["10.244.0.7"]]
    assert endpointslice.left_out(own, samples.VIEW, HOLDERS) == [
        "left out: endpoints[1].addresses[0]: 10.244.0.8 is not the address of a running pod of this cluster"
    ]
    assert endpointslice.left_out(slice_of(at("10.244.0.9")), samples.VIEW, HOLDERS) == []


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        (at("10.244.0.8"), "not the address of a running pod"),
        (at("10.244.0.9", "10.244.0.7"), "give each pod an endpoint of its own"),
        (at("10.244.0.9", "10.244.0.8"), "not the address of a running pod"),
        (at("10.244.0.9", targetRef={"kind": "Pod", "name": "other"}), "not the address of the pod that is named"),
        (
            at("10.244.0.9", targetRef={"kind": "Pod", "name": "web", "uid": "of-before"}),
            "not the address of the pod that is named",
        ),
        (
            at("10.244.0.9", targetRef={"kind": "Pod", "name": "web", "namespace": "x"}),
            "not the address of the pod that is named",
        ),
        (at("::ffff:10.244.0.9"), "not the address of a running pod"),
        (at("010.244.0.9"), "not the address of a running pod"),
        ({}, "needs an address"),
    ],
)
def test_an_endpoint_that_is_refused(endpoint: Obj, message: str) -> None:
    with pytest.raises(Untranslatable, match=message):
        endpointslice.to_host(slice_of(endpoint), samples.VIEW, HOLDERS)


@pytest.mark.parametrize(
    "target",
    [{"kind": "Pod", "name": "web"}, {"kind": "Pod", "name": "web", "uid": "uid-web", "namespace": "team"}, {"kind": "Node"}],
)
def test_an_endpoint_that_names_its_pod(target: Obj) -> None:
    found = endpointslice.to_host(slice_of(at("10.244.0.9", targetRef=target)), samples.VIEW, HOLDERS)
    assert found["endpoints"][0]["targetRef"] == OF_WEB


def test_a_port_needs_a_number() -> None:
    with pytest.raises(Untranslatable, match="every port"):
        endpointslice.to_host(slice_of(at("10.244.0.9"), ports=[{"name": "all"}]), samples.VIEW, HOLDERS)


@pytest.mark.parametrize(
    ("given", "reason", "message"),
    [
        (None, Reason.MALFORMED, "needs an address type"),
        (5, Reason.MALFORMED, "expected a text"),
        ("", Reason.NOT_ALLOWED, "'' is not one of IPv4, IPv6"),
        # Readers of the slice look up names at any DNS server that they use.
        ("FQDN", Reason.NOT_ALLOWED, "'FQDN' is not one of IPv4, IPv6"),
    ],
)
def test_a_slice_needs_the_type_of_its_addresses(given: Any, reason: Reason, message: str) -> None:
    with pytest.raises(Untranslatable, match=message) as refusal:
        endpointslice.to_host(slice_of(at("10.244.0.9"), addressType=given), samples.VIEW, HOLDERS)
    assert (refusal.value.reason, refusal.value.field) == (reason, "addressType")
    found = endpointslice.to_host(slice_of(at("fd00::9"), addressType="IPv6"), samples.VIEW, HOLDERS)
    assert (found["addressType"], found["endpoints"][0]["targetRef"]) == ("IPv6", OF_WEB)


def test_what_a_host_slice_loses() -> None:
    kept = at("10.244.0.9", targetRef=OF_WEB)
    for lost in (
        at("10.244.0.8"),
        at("10.244.0.9", targetRef=OF_WEB | {"uid": "of-before"}),
        at("10.244.0.9", "10.244.0.7"),
        {"addresses": None},
    ):
        assert endpointslice.proven({"endpoints": [kept, lost]}, HOLDERS, samples.VIEW.work_namespace) == [kept]
    # One from before endpoints named their pods.
    assert endpointslice.proven({"endpoints": [at("10.244.0.9"), at("x")]}, HOLDERS, samples.VIEW.work_namespace) == [kept]
    assert endpointslice.proven({"endpoints": [kept]}, HOLDERS, samples.VIEW.work_namespace) is None
    assert endpointslice.proven({"endpoints": None}, HOLDERS, samples.VIEW.work_namespace) is None
