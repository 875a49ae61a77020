"""Which Service is a route, and who has a name that two claim."""

from typing import Any

import pytest

from controller.plane.render import render
from controller.plane.ways import Exposure
from frontdoor import haproxy
from frontdoor.haproxy import Limits, Running
from frontdoor.routes import Route, routes
from frontdoor.settings import Settings, SettingsError, load, within
from tests.kit.tenantsamples import material, plane_spec


def service(tenant: str = "team-a", hosts: str = "", target: str = "10.112.4.1", **meta: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "plane-proxy",
            "namespace": f"bh-{tenant}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"bulkhead.dev/tenant": tenant},
            "annotations": {
                "bulkhead.dev/proxy-hosts": hosts or f"{tenant}.k8s.example.org",
                "bulkhead.dev/proxy-target": target,
            },
            **meta,
        }
    }


def test_what_the_controller_renders_is_a_route() -> None:
    spec = plane_spec(exposure=Exposure("Proxy", ("team-a.k8s.example.org", "x.team-a.other.net")))
    made = next(obj for obj in render(spec, material(spec)).everything() if obj["metadata"]["name"] == "plane-proxy")
    (route,) = routes([made]).good
    assert route == Route("team-a", spec.api_address, ("team-a.k8s.example.org", "x.team-a.other.net"))


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({}, "name"),
        ({"metadata": None}, "name"),
        ({"metadata": {"labels": [], "annotations": 7}}, "name"),
        (service(name="x"), "is not bh-team-a/plane-proxy"),
        (service(namespace="bh-team-a-work"), "is not bh-team-a/plane-proxy"),
        (service(namespace="default"), "is not bh-team-a/plane-proxy"),
        (service(labels={"bulkhead.dev/tenant": "team-b"}), "is not bh-team-b/plane-proxy"),
        (service(labels={"bulkhead.dev/tenant": "a b"}), "name"),
        (service(target="169.254.169.254"), "must be the address of a Service"),
        (service(target="127.0.0.1"), "must be the address of a Service"),
        (service(target="::"), "must be the address of a Service"),
        (service(target="evil.example.org"), "proxy-target"),
        (service(target="10.0.0.1 weight 5"), "proxy-target"),
        (service(hosts="a.org; shutdown sessions"), "must be host names"),
        (service(hosts="a.org\nadd map x y z"), "must be host names"),
        (service(hosts="A.org"), "must be host names"),
        (service(hosts="*.org"), "must be host names"),
        (service(hosts="a" * 300), "must be host names"),
        (service(hosts=","), "must be host names"),
        (service(hosts=",".join(f"h{n}.org" for n in range(100))), "more than 32"),
    ],
)
def test_what_is_malformed_is_left_out_alone(broken: dict[str, Any], why: str) -> None:
    found = routes([broken, service("team-b")])
    assert [route.tenant for route in found.good] == ["team-b"]
    assert why in found.left_out[0][1]


def test_of_two_that_claim_a_name_the_older_has_it() -> None:
    first = service("team-b", hosts="x.org,b.org")
    second = service("team-a", hosts="x.org,a.org", creationTimestamp="2026-01-02T00:00:00Z")
    found = routes([second, first])
    assert {route.tenant: route.hosts for route in found.good} == {"team-a": ("a.org",), "team-b": ("x.org", "b.org")}
    assert found.left_out == (("bh-team-a/plane-proxy", "x.org is team-b's"),)


A, B = Route("team-a", "10.112.4.1", ("a.org",)), Route("team-b", "10.112.8.1", ("b.org", "c.org"))


def test_a_server_is_there_before_a_name_leads_to_it_and_goes_after_it() -> None:
    assert haproxy.commands([B], Running({"team-a": ("10.112.4.1:443", 0)}, {"a.org": "team-a"}), "/f") == [
        "add server planes/team-b 10.112.8.1:443 weight 0",
        "enable server planes/team-b",
        "add map /f/hosts.map b.org team-b",
        "add map /f/hosts.map c.org team-b",
        "del map /f/hosts.map a.org",
        "disable server planes/team-a",
        "shutdown sessions server planes/team-a",
        "del server planes/team-a",
    ]


def test_what_is_as_wanted_is_left_alone() -> None:
    running = Running({"team-a": ("10.112.4.1:443", 0)}, {"a.org": "team-a"})
    assert haproxy.commands([A], running, "/f") == []
    assert haproxy.commands([A], Running({"team-a": ("10.112.4.1:443", 1)}, {"a.org": "team-a"}), "/f") == [
        "enable server planes/team-a"
    ]
    assert haproxy.commands([A], Running({"team-a": ("10.9.9.9:443", 0)}, {"a.org": "team-b"}), "/f") == [
        "set server planes/team-a addr 10.112.4.1 port 443",
        "set map /f/hosts.map a.org team-a",
    ]


@pytest.mark.parametrize("answer", ["", "1\n# be_id\n", "garbage", "4 planes 1\n", "x y z = 0x00 key= gpc0=\n"])
def test_answers_that_say_nothing_are_taken_for_nothing(answer: str) -> None:
    assert haproxy.servers_of(answer) == {}
    assert haproxy.map_of(answer) == {}
    assert haproxy.table_of(answer, "gpc0") == {}


def test_without_a_limit_there_is_no_rule() -> None:
    none = haproxy.configuration([A], Limits(tenant_connections=0, tenant_rate=0, source_connections=0, source_rate=0), "/f")
    assert "over" not in none
    assert "sc0_conn" not in none
    assert "acl over sc1_conn_cur gt 5000" in haproxy.configuration([A], Limits(), "/f")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CONNECTIONS", "0"),
        ("CONNECTIONS", "many"),
        ("TENANT_RATE", "-1"),
        ("TENANT_RATE", "99999999999"),
        ("THREADS", "0"),
        ("FOLDER", "x"),
        ("FOLDER", "/run/a b"),
        ("FOLDER", "/run/x\nglobal"),
        ("HTTP_PORT", ""),
    ],
)
def test_settings_that_make_no_sense_are_refused(variable: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"BULKHEAD_PROXY_{variable}"):
        load({f"BULKHEAD_PROXY_{variable}": value})


def test_connections_are_no_more_than_open_files_allow() -> None:
    assert within(Settings(), -1) == within(Settings(), 100_000) == Settings()
    assert within(Settings(), 20_000).limits.connections == 9850
