"""How the syncer reaches the host's API server and who reads its metrics, as the chart's values say."""

import json
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from controller.decide.planespec import plane_of
from controller.plane.network import peers, policies
from controller.settings import Settings, SettingsError, load
from tests.kit.tenantsamples import case, plane_spec, tenant, tenant_class

API = (("192.0.2.10", 6443), ("192.0.2.11", 6443), ("2001:db8::10", 443))
SCRAPERS = ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}},)


def syncer(**changes: Any) -> Obj:
    (found,) = [policy for policy in policies(plane_spec(**changes)) if policy["metadata"]["name"] == "allow-syncer"]
    spec: Obj = found["spec"]
    return spec


def test_the_hosts_api_is_reached_by_its_addresses() -> None:
    rules = syncer(installation={"host_api": API})["egress"][1:]
    assert [(rule["to"][0]["ipBlock"]["cidr"], rule["ports"][0]["port"]) for rule in rules] == [
        ("192.0.2.10/32", 6443),
        ("192.0.2.11/32", 6443),
        ("2001:db8::10/128", 443),
    ]


def test_by_ports_alone_it_is_reached_wherever_it_is_and_nothing_else_is_opened() -> None:
    rules = syncer(installation={"host_api": API, "host_api_anywhere": True})["egress"][1:]
    assert rules == [{"ports": [{"protocol": "TCP", "port": port}]} for port in (443, 6443)]
    # With no address known, no port is either: a rule without both would open everything.
    assert syncer(installation={"host_api": (), "host_api_anywhere": True})["egress"][1:] == []


def test_the_setting_reaches_the_plane() -> None:
    for way, expected in (("Address", False), ("CiliumEntity", False), ("Port", True)):
        assert plane_of(case(tenant(), tenant_class(), Settings(host_api_by=way))).installation.host_api_anywhere is expected


def test_metrics_are_open_to_the_peers_in_the_values_and_the_shim_to_no_others() -> None:
    shim, metrics = syncer(installation={"metrics_from": SCRAPERS})["ingress"][:2]
    assert metrics["from"][1:] == list(SCRAPERS)
    assert [port["port"] for port in metrics["ports"]] == [8080]
    assert shim == syncer()["ingress"][0]
    assert len(syncer()["ingress"][1]["from"]) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "{",
        "{}",
        "1",
        '["x"]',
        "[{}]",
        '[{"x": {}}]',
        '[{"podSelector": "all"}]',
        json.dumps([{"podSelector": {}}] * 17),
        "[" * 9000,
    ],
)
def test_a_malformed_peer_stops_the_controller_and_is_named(wrong: str) -> None:
    with pytest.raises(SettingsError, match="BULKHEAD_METRICS_FROM"):
        load({"BULKHEAD_METRICS_FROM": wrong})


def test_an_empty_list_of_peers_means_none_and_not_all() -> None:
    assert peers("") == peers("[]") == ()


def test_a_way_that_there_is_not_stops_the_controller() -> None:
    with pytest.raises(SettingsError, match="BULKHEAD_HOST_API_BY"):
        load({"BULKHEAD_HOST_API_BY": "Magic"})
