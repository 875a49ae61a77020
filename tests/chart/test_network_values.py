"""Values of the chart that open ways: to the cluster's DNS and to the host's API server."""

import json

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.resources import NETWORK_POLICIES
from controller.plane.network import policies
from controller.plane.sections import CLUSTER_DNS
from controller.settings import load
from tests.kit import yamlfiles
from tests.kit.helmchart import CHART, DNS_PORTS, environment, environment_of, of_kind, rendered, ways_to_dns
from tests.kit.tenantsamples import plane_spec


def test_the_way_to_dns_is_opened_where_the_values_say_to_pods_at_any_port_and_to_addresses_at_port_53() -> None:
    by_default: tuple[Obj, ...] = tuple(yamlfiles.load(CHART / "values.yaml")["networkPolicy"]["dns"])
    assert by_default == CLUSTER_DNS == load(environment()).cluster_dns
    of_own: tuple[Obj, ...] = ({"ipBlock": {"cidr": "10.96.0.10/32"}}, {"namespaceSelector": {"matchLabels": {"a": "b"}}})
    for told, listed in (([], by_default), (["--set-json", f"networkPolicy.dns={json.dumps(of_own)}"], of_own)):
        on = ("--set", "tracing.enabled=true", *told)
        settings = load(environment(*on))
        assert settings.cluster_dns == listed
        pods = [peer for peer in listed if "ipBlock" not in peer]
        addresses = [peer for peer in listed if "ipBlock" in peer]
        rules = [{"to": pods}, {"to": addresses, "ports": DNS_PORTS}]
        (policy,) = [obj for obj in of_kind("NetworkPolicy", *on) if obj["metadata"]["name"] == "bulkhead-controller"]
        assert ways_to_dns(policy) == rules
        found = policies(plane_spec(control_plane={"replicas": 3}, installation={"cluster_dns": settings.cluster_dns}))
        (plane,) = [policy for policy in found if policy["metadata"]["name"] == "allow-plane"]
        assert [rule for rule in plane["spec"]["egress"] if rule in rules] == rules


@pytest.mark.parametrize("none", ["[]", "null"])
def test_without_a_peer_no_way_to_dns_is_opened(none: str) -> None:
    on = ("--set", "tracing.enabled=true", "--set-json", f"networkPolicy.dns={none}")
    (policy,) = [obj for obj in of_kind("NetworkPolicy", *on) if obj["metadata"]["name"] == "bulkhead-controller"]
    assert all(rule.get("to") for rule in policy["spec"]["egress"])
    assert ways_to_dns(policy) == []
    assert load(environment(*on)).cluster_dns == ()
    (plane, *_) = policies(plane_spec(control_plane={"replicas": 3}, installation={"cluster_dns": ()}))[1:]
    assert all(rule.get("to") for rule in plane["spec"]["egress"])


@pytest.mark.apiserver
@pytest.mark.parametrize("told", [(), ("--set-json", 'networkPolicy.dns=[{"ipBlock":{"cidr":"169.254.20.10/32"}}]')])
async def test_an_api_server_takes_the_policies(host_client: Client, namespace: str, told: tuple[str, ...]) -> None:
    on = ("--set", "tracing.enabled=true", "--set", "gpuMetrics.enabled=true", *told)
    dns = load(environment_of("bulkhead-controller", *on)).cluster_dns
    made = [
        *of_kind("NetworkPolicy", *on),
        *policies(plane_spec(control_plane={"replicas": 3}, installation={"cluster_dns": dns})),
    ]
    for number, policy in enumerate(made):
        meta = {"name": f"policy-{number}", "namespace": namespace}
        taken = await host_client.create(NETWORK_POLICIES, policy | {"metadata": meta})
        assert taken["spec"].get("egress", []) == policy["spec"].get("egress", []), policy["metadata"]["name"]


# -- the way to the host's API server


def host_api(*arguments: str) -> list[Obj]:
    (policy,) = [obj for obj in of_kind("NetworkPolicy", *arguments) if obj["metadata"]["name"] == "bulkhead-controller"]
    found: list[Obj] = policy["spec"]["egress"][1:]
    return found


def test_the_way_to_the_hosts_api_is_opened_by_address_by_entity_or_by_port() -> None:
    by_address = host_api()
    assert all("ipBlock" in rule["to"][0] for rule in by_address)
    assert not [obj for obj in rendered() if obj["apiVersion"].startswith("cilium.io")]
    by_port = host_api("--set", "networkPolicy.hostAPIBy=Port")
    assert [rule["ports"] for rule in by_port] == [rule["ports"] for rule in by_address]
    assert not any("to" in rule for rule in by_port)
    cilium = [obj for obj in rendered("--set", "networkPolicy.hostAPIBy=CiliumEntity") if obj["apiVersion"] == "cilium.io/v2"]
    assert sorted(obj["kind"] for obj in cilium) == ["CiliumClusterwideNetworkPolicy", "CiliumNetworkPolicy"]
    assert all(obj["spec"]["egress"] == [{"toEntities": ["kube-apiserver"]}] for obj in cilium)
    assert host_api("--set", "networkPolicy.hostAPIBy=CiliumEntity") == by_address
