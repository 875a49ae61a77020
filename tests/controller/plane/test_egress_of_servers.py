"""Servers that trust the host's nodes are not opened by egress CIDRs; those known only by name are reported."""

from ipaddress import ip_address
from typing import cast

import msgspec
import pytest

from bulkhead.api.conditions import Reason, find_condition
from bulkhead.kube.client import Client
from bulkhead.kube.objects import Key
from controller.host.hostranges import HostRanges
from controller.plane import network
from controller.plane.addresses import ALWAYS, LISTED, RECEIVERS, REGISTRY, STORAGE, Reserved
from controller.settings import Settings, SettingsError, load
from controller.tenant.facets.egress import report as egress
from tests.controller.plane.test_egress import opens, outward
from tests.kit.statuses import Findings, compute
from tests.kit.tenantsamples import NOW, plane_spec, tenant

SERVERS = (
    *ALWAYS,
    Reserved("192.0.2.10/32", STORAGE),
    Reserved("fd00:5::9/128", STORAGE),
    Reserved("192.0.2.12/32", RECEIVERS),
)
NAMED = Reserved("nfs.example.org", STORAGE)
CLOSED = ("192.0.2.10", "192.0.2.12", "fd00:5::9", "64:ff9b::c000:20a")


@pytest.mark.parametrize("address", CLOSED)
@pytest.mark.parametrize("asked", [("0.0.0.0/0", "::/0"), ("192.0.2.0/24", "fd00:5::/32", "64:ff9b::/96")])
def test_no_egress_opens_a_server_of_the_host(asked: tuple[str, ...], address: str) -> None:
    found = outward(plane_spec(network={"egress_cidrs": asked, "reserved": SERVERS}))
    assert len(found) == len(asked)
    assert not any(opens(rule, ip_address(address)) for rule in found)
    for beside in ("192.0.2.11", "fd00:5::8"):
        assert any(opens(rule, ip_address(beside)) for rule in found), beside


def test_a_network_that_is_a_server_is_not_opened_and_the_tenant_is_told() -> None:
    spec = plane_spec(network={"egress_cidrs": ("203.0.113.0/24", "192.0.2.10/32"), "reserved": SERVERS})
    assert outward(spec) == [{"ipBlock": {"cidr": "203.0.113.0/24"}}]
    (told,) = network.withheld(spec)
    assert [part for part in ("192.0.2.10/32", STORAGE) if part not in told] == []


def test_the_class_reaches_a_server_on_purpose() -> None:
    (found,) = outward(
        plane_spec(network={"egress_cidrs": ("192.0.2.0/24",), "reserved": SERVERS, "reach_reserved": ("192.0.2.10/32",)})
    )
    assert opens(found, ip_address("192.0.2.10"))
    assert not opens(found, ip_address("192.0.2.12"))


def test_a_server_that_is_known_by_its_name_alone_is_told_where_anything_is_open() -> None:
    open_ = plane_spec(network={"egress_cidrs": ("0.0.0.0/0",), "reserved": (*SERVERS, NAMED)})
    told = egress.storage(open_)
    assert told is not None
    assert (told.status, told.reason) == ("False", Reason.SERVERS_BY_NAME)
    assert [part for part in ("nfs.example.org", "SharedVolume", "serverAddresses") if part not in told.message] == []
    assert egress.storage(plane_spec(network={"egress_cidrs": ("0.0.0.0/0",), "reserved": SERVERS})) is None
    for closed in ((), ("192.0.2.10/32",)):
        assert egress.storage(plane_spec(network={"egress_cidrs": closed, "reserved": (*SERVERS, NAMED)})) is None
    # Nothing of it keeps the tenant from being used, and it goes once it is done.
    conditions = compute(tenant(), open_, Findings(), NOW)["conditions"]
    assert (find_condition(conditions, "StorageClosed") or {})["status"] == "False"
    assert (find_condition(conditions, "EgressApplied") or {})["status"] == "True"
    after = compute(
        tenant() | {"status": {"conditions": conditions}}, plane_spec(network={"reserved": SERVERS}), Findings(), NOW
    )
    assert find_condition(after["conditions"], "StorageClosed") is None


def test_of_many_names_a_few_are_told() -> None:
    many = tuple(Reserved(f"nfs-{number:02}.example.org", STORAGE) for number in range(90))
    told = egress.storage(plane_spec(network={"egress_cidrs": ("0.0.0.0/0",), "reserved": many}))
    assert told is not None
    assert "nfs-07.example.org and 82 more" in told.message


def test_an_admin_says_where_a_named_server_is() -> None:
    found = load({"BULKHEAD_SERVER_ADDRESSES": "NFS.example.org=192.0.2.10/32,nfs.example.org=fd00:5::9/128"})
    assert {Reserved("192.0.2.10/32", STORAGE), Reserved("fd00:5::9/128", STORAGE)} <= set(found.reserved)
    assert "nfs.example.org" in found.named_servers
    for wrong in ("nfs.example.org", "=192.0.2.1/32", "a b=192.0.2.1/32", "nfs.example.org=192.0.2.1/24", "x=y"):
        with pytest.raises(SettingsError, match="BULKHEAD_SERVER_ADDRESSES"):
            load({"BULKHEAD_SERVER_ADDRESSES": wrong.replace(" ", "/")})


def test_a_server_that_an_admin_or_the_host_names_is_not_unknown() -> None:
    named = load({"BULKHEAD_SERVER_ADDRESSES": "nfs.example.org=192.0.2.10/32,.nas.example.org=192.0.2.0/24"}).named_servers
    ranges = HostRanges(cast("Client", None), named=named)
    names_ = ("nfs.example.org", "a.nas.example.org", "nfs.storage.svc.cluster.local", "nfs.storage.svc", "b.example.org")
    for at, server in enumerate(names_, 1):
        seen(ranges, f"v{at}", server, version=at)
    assert storage(ranges) == ["b.example.org"]


def seen(ranges: HostRanges, name: str, server: str, *, version: int) -> None:
    """A volume of the host as its informer receives it."""
    meta = {"name": name, "uid": f"u-{name}", "resourceVersion": str(version)}
    raw = msgspec.json.encode({"metadata": meta, "spec": {"nfs": {"server": server, "path": "/"}}})
    ranges._storage[0]._put(*ranges._storage[0]._shrink(raw, None), relist=False)


def storage(ranges: HostRanges) -> list[str]:
    return [range_.cidr for range_ in ranges.reserved() if range_.what == STORAGE]


def test_what_is_closed_is_what_the_volumes_name_now() -> None:
    ranges = HostRanges(cast("Client", None))
    assert storage(ranges) == []
    seen(ranges, "one", "192.0.2.10", version=1)
    seen(ranges, "two", "192.0.2.10", version=2)
    assert storage(ranges) == ["192.0.2.10/32"]
    seen(ranges, "one", "nfs.example.org", version=3)
    assert storage(ranges) == ["192.0.2.10/32", "nfs.example.org"]
    ranges._storage[0]._drop(Key("", "two"), relist=True)
    assert storage(ranges) == ["nfs.example.org"]


def test_the_registry_of_the_platform_is_closed_where_it_is_an_address() -> None:
    def closed(image: str) -> list[str]:
        return [range_.cidr for range_ in Settings(image_kubernetes=image).reserved if range_.what == REGISTRY]

    assert closed("192.0.2.14:5000/bulkhead/kubernetes:{version}") == ["192.0.2.14"]
    assert closed("[fd00:5::e]:5000/kubernetes:{version}") == ["fd00:5::e"]
    assert closed("docker.io/bulkhead/kubernetes:{version}") == closed("kubernetes") == []
    listed = Settings(reserved_cidrs=("192.0.2.0/24",)).reserved
    assert Reserved("192.0.2.0/24", LISTED) in listed
