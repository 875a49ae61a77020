"""Node ports: a Service of their own at the address of the tenant's nodes, and never anything else of the host."""

import copy
import ipaddress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulkhead.api.objects import Obj
from bulkhead.api.serviceenv import ServiceEnv
from syncer.translate import TenantView, Untranslatable, diff, origin
from syncer.translate.kinds import nodeports, service
from tests.kit import translationsamples as samples
from tests.kit import yamlfiles
from tests.syncer.translate import golden
from tests.syncer.translate.test_laws import JSON

NODE = samples.VIEW.kubelet_address
SLICE = ipaddress.ip_network(samples.VIEW.service_slice)
PORT: Obj = {"name": "main", "protocol": "TCP", "port": 80, "targetPort": "http", "nodePort": 30080}


def virtual(*ports: Obj, uid: str = "u1", **spec: Any) -> Obj:
    meta = {"name": "web", "namespace": "team", "uid": uid, "labels": {"app": "web"}}
    base = {"type": "NodePort", "clusterIP": "10.112.4.50", "selector": {"app": "web"}, "ports": list(ports) or [PORT]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": base | spec}


def translate(obj: Obj, view: TenantView = samples.VIEW, taken: Any = ()) -> Obj | None:
    before = copy.deepcopy(obj)
    found = nodeports.to_host(obj, view, nodeports.choose(obj, view, taken)) if nodeports.wanted(obj, view) else None
    assert repr(obj) == repr(before)
    return found


def test_item_79_node_ports_are_a_service_at_the_address_of_the_nodes() -> None:
    udp = {"name": "udp", "protocol": "UDP", "port": 53, "targetPort": 5353, "nodePort": 30080, "appProtocol": "dns"}
    host = translate(
        virtual(PORT, udp, {"port": 9}, sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 60}})
    )
    assert host is not None
    spec = host["spec"]
    assert spec.pop("clusterIP") == spec.pop("clusterIPs")[0]
    assert spec == {
        "type": "ClusterIP",
        "externalIPs": [NODE],
        "externalTrafficPolicy": "Local",
        "ports": [
            {"name": "main", "protocol": "TCP", "port": 30080, "targetPort": "http"},
            {"name": "udp", "protocol": "UDP", "port": 30080, "targetPort": 5353, "appProtocol": "dns"},
        ],
        "selector": service.to_host(virtual(), samples.VIEW)["spec"]["selector"],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
    }


def test_item_79_it_has_a_name_of_its_own_and_is_not_taken_for_the_tenants_service() -> None:
    host = translate(virtual())
    assert host is not None
    assert host["metadata"]["name"] != service.to_host(virtual(), samples.VIEW)["metadata"]["name"]
    assert "app" not in host["metadata"]["labels"]
    who = origin.of_host(host, samples.VIEW)
    assert who is not None
    assert (who.kind, who.namespace, who.name, who.uid) == (nodeports.KIND, "team", "web", "u1")
    # The same marks under another name, and another's marks under this one.
    for changed in ({"name": "copy"}, {"annotations": service.to_host(virtual(), samples.VIEW)["metadata"]["annotations"]}):
        assert origin.of_host({"metadata": host["metadata"] | changed}, samples.VIEW) is None


@pytest.mark.parametrize(
    "obj",
    [
        virtual(type="ClusterIP"),
        virtual(type="ExternalName"),
        virtual(selector={}),
        virtual(selector=None),
        virtual({"port": 80}),
        virtual(clusterIP=None),
        *(virtual(PORT | {"nodePort": port}) for port in (80, 10250, 29999, 32768, 65535, -1, "30080", True, None)),
    ],
)
def test_item_79_what_has_no_node_ports_to_serve_gets_no_service(obj: Obj) -> None:
    assert translate(obj) is None


def test_item_79_without_an_address_of_the_nodes_or_a_slice_nothing_is_served() -> None:
    assert translate(virtual(), samples.view({"kubelet_address": ""})) is None
    assert translate(virtual(), samples.view({"service_slice": ""})) is None


def test_item_79_a_balancer_is_served_at_its_node_ports_and_those_out_of_range_are_left_out() -> None:
    host = translate(virtual(PORT | {"nodePort": 10250}, PORT | {"nodePort": 32767}, type="LoadBalancer"))
    assert host is not None
    assert [each["port"] for each in host["spec"]["ports"]] == [32767]


def test_item_79_the_address_is_free_and_gives_way_to_the_tenants_services() -> None:
    first = nodeports.choose(virtual(), samples.VIEW, ())
    other = nodeports.choose(virtual(), samples.VIEW, {first})
    assert first != other
    assert nodeports.may_keep(first, samples.VIEW)
    claimed = samples.view({"services": {"team": (ServiceEnv("db", first),)}})
    assert not nodeports.may_keep(first, claimed)
    assert nodeports.choose(virtual(), claimed, ()) == other
    for address in (NODE, samples.VIEW.api_address, samples.VIEW.dns_address, "10.112.9.1", "fd00::1", ""):
        assert not nodeports.may_keep(address, samples.VIEW)
    small = samples.view({"service_slice": "10.112.4.8/29"})
    free = {nodeports.choose(virtual(uid=f"u{number}"), small, ()) for number in range(50)}
    assert free == {f"10.112.4.{number}" for number in (9, 13, 14)}
    with pytest.raises(Untranslatable, match="no address is left"):
        nodeports.choose(virtual(), small, free)


def test_item_79_the_plane_gives_such_addresses_last() -> None:
    early = {str(each) for each in SLICE.hosts() if int(each) - int(SLICE.network_address) <= 64}
    chosen: set[str] = set()
    for number in range(60):  # 64 less the platform's four
        chosen.add(nodeports.choose(virtual(uid=f"u{number}"), samples.view({"services": {}}), chosen))
    assert chosen == early - {NODE, samples.VIEW.api_address, samples.VIEW.dns_address, samples.VIEW.public_address}
    assert nodeports.choose(virtual(), samples.VIEW, chosen) not in early


def test_item_79_what_was_wanted_before_is_taken_away() -> None:
    asked = virtual(publishNotReadyAddresses=True, sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {}})
    actual, desired = translate(asked), translate(virtual(sessionAffinity="None"))
    assert actual is not None
    assert desired is not None
    actual["metadata"]["uid"] = "h"
    found = diff.object_patch(desired, actual)
    assert found is not None
    assert found.body["spec"] == {
        "publishNotReadyAddresses": None, "sessionAffinity": "None", "sessionAffinityConfig": None,
    }  # fmt: skip
    assert diff.object_patch(actual, actual) is None


GOOD = [yamlfiles.load(path) for name, path in golden.cases() if name.startswith("service/")] + [virtual()]
_PORTS = st.lists(
    st.fixed_dictionaries({"port": st.integers(-1, 70000)}, optional={"nodePort": st.integers(-1, 70000), "protocol": JSON}),
    max_size=3,
)
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["NodePort", "LoadBalancer", "ClusterIP", "ExternalName"]) | JSON,
        "ports": _PORTS | JSON,
        "selector": st.dictionaries(st.sampled_from(["app", "bulkhead.dev/tenant"]), st.just("x"), max_size=2) | JSON,
        "externalIPs": st.just(["192.0.2.1"]) | JSON,
        "externalTrafficPolicy": st.sampled_from(["Cluster", "Local"]),
        "clusterIP": st.sampled_from(["10.112.4.60", NODE, "172.31.255.1"]) | JSON,
        "loadBalancerIP": st.just("192.0.2.1"),
        "sessionAffinity": JSON,
    },
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(GOOD), _SPECS), max_size=5))
def test_item_79_no_services_of_a_tenant_ever_claim_more_than_node_ports_at_the_nodes_address(
    asked: list[tuple[Obj, Obj]],
) -> None:
    taken: set[str] = set()
    for number, (obj, changes) in enumerate(asked):
        changed = {**obj, "metadata": obj["metadata"] | {"uid": f"u{number}"}, "spec": obj["spec"] | changes}
        for host in (_or_none(service.to_host, changed, samples.VIEW), _or_none(translate, changed, samples.VIEW, taken)):
            if host is None:
                continue
            spec = host["spec"]
            assert spec["type"] == "ClusterIP"
            assert not {"loadBalancerIP", "loadBalancerClass", "externalName", "healthCheckNodePort"} & set(spec)
            assert all("nodePort" not in port for port in spec.get("ports", ()))
            if "externalIPs" not in spec:
                continue
            assert spec["externalIPs"] == [NODE]
            assert spec["externalTrafficPolicy"] == "Local"
            assert spec["ports"]
            assert all(30000 <= port["port"] <= 32767 for port in spec["ports"])
            assert spec["selector"]["bulkhead.dev/tenant"] == "red"
            assert ipaddress.ip_address(spec["clusterIP"]) in SLICE
            assert spec["clusterIP"] not in taken
            taken.add(spec["clusterIP"])


def _or_none(function: Any, *arguments: Any) -> Obj | None:
    try:
        found: Obj | None = function(*arguments)
    except Untranslatable:
        return None
    return found
