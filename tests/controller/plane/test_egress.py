"""No range that a class or a Tenant names opens the host: what is reserved is closed, and nothing else."""

import asyncio
import contextlib
import functools
import json
import secrets
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, cast

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bulkhead.api.conditions import Reason, find_condition
from bulkhead.kube.client import Client
from bulkhead.kube.codec import compact
from bulkhead.kube.objects import Key
from bulkhead.kube.resources import ENDPOINT_SLICES, NAMESPACES, NETWORK_POLICIES, NODES, SERVICE_CIDRS
from controller.host.hostranges import HostRanges
from controller.plane import addresses, network
from controller.plane.addresses import ALWAYS, API, METADATA, PODS, SERVICES, Reserved, block, closed
from controller.plane.addresses import NODES as NODE
from controller.plane.spec import PlaneSpec
from controller.settings import Settings, SettingsError, load
from tests.kit.statuses import Findings, compute
from tests.kit.tenantsamples import NOW, plane_for, plane_spec, tenant, tenant_class

Address = IPv4Address | IPv6Address
HOST = (
    *ALWAYS,
    Reserved("10.96.0.0/16", SERVICES),
    Reserved("10.244.0.0/24", PODS),
    Reserved("10.244.1.0/24", PODS),
    Reserved("172.31.255.1/32", NODE),
    Reserved("fd00:5::/48", PODS),
)


def _cidr(bits: int) -> st.SearchStrategy[str]:
    # A few high bits and any low ones, so that networks meet often.
    start = st.builds(lambda high, low: (high << (bits - 4)) | low, st.integers(0, 15), st.integers(0, (1 << (bits - 8)) - 1))
    near = st.builds(lambda low: (1 << (bits - 4)) | low, st.integers(0, 63))
    kind: Any = IPv4Address if bits == 32 else IPv6Address

    def written(value: int, length: int) -> str:
        return str(ip_network(f"{kind(value)}/{length}", strict=False))

    return st.builds(written, start | near, st.integers(0, bits) | st.integers(bits - 6, bits))


MAPPED = st.builds(lambda cidr: f"::ffff:{cidr.partition('/')[0]}/{int(cidr.partition('/')[2]) + 96}", _cidr(32))
CIDR = _cidr(32) | _cidr(128) | MAPPED


@functools.lru_cache(maxsize=4096)
def network_of(text: str) -> IPv4Network | IPv6Network:
    """Each is asked for a thousand addresses."""
    return ip_network(text, strict=False)


def has(text: str, address: Address) -> bool:
    """Whether a CIDR holds an address; IPv4 in IPv6's clothes is IPv4. Shares no code with the module."""
    one = network_of(text)
    if one.version == 6 and one.prefixlen >= 96 and one.network_address.packed[:12] == bytes(10) + b"\xff\xff":
        one = ip_network((one.network_address.packed[12:], one.prefixlen - 96))
    return one.version == address.version and address in one


def edges(cidrs: list[str]) -> list[Address]:
    """Addresses at and beside every border, in both families' clothes."""
    found: set[Address] = set()
    for text in cidrs:
        one = ip_network(text, strict=False)
        for value in (int(one.network_address), int(one.broadcast_address)):
            beside = (near for near in (value - 1, value, value + 1) if 0 <= near < 1 << one.max_prefixlen)
            found |= {type(one.network_address)(near) for near in beside}
    plain = {address.ipv4_mapped or address if isinstance(address, IPv6Address) else address for address in found}
    translated = {
        ip_address(int(IPv6Address("64:ff9b::")) + int(address)) for address in plain if isinstance(address, IPv4Address)
    }
    return sorted(plain | translated, key=lambda address: (address.version, int(address)))


def opens(made: dict[str, Any] | None, address: Address) -> bool:
    if made is None:
        return False
    rule = made["ipBlock"]
    return address in network_of(rule["cidr"]) and not any(address in network_of(cidr) for cidr in rule.get("except", ()))


def embedded(address: Address) -> Address | None:
    """The IPv4 address that a translator sends this one to."""
    if isinstance(address, IPv6Address) and address in ip_network("64:ff9b::/96"):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


@given(st.lists(CIDR, min_size=1, max_size=4), st.lists(CIDR, max_size=5), st.lists(CIDR, max_size=2))
@example(["0.0.0.0/0"], ["10.0.0.0/8", "10.1.0.0/16"], ["10.1.2.0/24"])
@example(["10.0.0.0/31"], ["10.0.0.0/32", "10.0.0.1/32"], [])
@example(["::/0"], ["169.254.169.254/32"], [])
@example(["::ffff:10.0.0.0/104"], ["10.3.0.0/16"], [])
@example(["0.0.0.0/0"], ["::ffff:10.3.0.0/112"], [])
def test_nothing_reserved_is_opened_and_nothing_else_is_closed(asked: list[str], reserved: list[str], reach: list[str]) -> None:
    kept = closed([Reserved(cidr, NODE) for cidr in reserved], reach)
    blocks = [block(cidr, kept) for cidr in asked]
    for made in blocks:
        if made is not None:
            whole = ip_network(made["ipBlock"]["cidr"])
            for hole in made["ipBlock"].get("except", ()):
                # What an API server takes: inside, and smaller.
                assert ip_network(hole).subnet_of(whole)  # type: ignore[arg-type]
                assert ip_network(hole).prefixlen > whole.prefixlen
    for address in edges([*asked, *reserved, *reach]):
        behind = embedded(address)

        def held(listed: list[str], address: Address = address, behind: Address | None = behind) -> bool:
            return any(has(cidr, address) or (behind is not None and has(cidr, behind)) for cidr in listed)

        routed = address not in ip_network("::/64")
        wanted = any(has(cidr, address) for cidr in asked) and (held(reach) or not held(reserved)) and routed
        assert any(opens(made, address) for made in blocks) == wanted, address


@given(st.sets(st.integers(0, (1 << 20) - 1), min_size=200, max_size=1500))
@settings(max_examples=20)
def test_a_host_of_many_nodes_is_closed_whole_with_few_exceptions(places: set[int]) -> None:
    nodes = [IPv4Address((10 << 24) + place) for place in places]
    made = block("0.0.0.0/0", closed(Reserved(f"{node}/32", NODE) for node in nodes))
    assert made is not None
    assert len(made["ipBlock"]["except"]) <= addresses.MOST_EXCEPTIONS
    exceptions = [network_of(cidr) for cidr in made["ipBlock"]["except"]]
    assert all(any(node in network for network in exceptions) for node in nodes)


def closed_addresses(made: dict[str, Any]) -> int:
    return sum(ip_network(cidr).num_addresses for cidr in made["ipBlock"]["except"])


def test_scattered_nodes_close_little_beside_themselves() -> None:
    """Those that lie nearest to each other are joined, and the others stay as they are."""
    nodes = [
        IPv4Address((34 << 24) + (host << 16) + (number * 977 + host * 131) % 65536)
        for host in range(60)
        for number in range(5)
    ]
    made = block("0.0.0.0/0", closed(Reserved(f"{node}/32", NODE) for node in nodes))
    assert made is not None
    assert len(made["ipBlock"]["except"]) <= addresses.MOST_EXCEPTIONS
    assert all(not opens(made, node) for node in nodes)
    assert closed_addresses(made) < 1 << 18


def test_as_many_nodes_as_there_may_be_exceptions_close_nothing_beside_themselves() -> None:
    nodes = [IPv4Address((34 << 24) + number * 65_000) for number in range(addresses.MOST_EXCEPTIONS)]
    for asked in ("0.0.0.0/0", "64:ff9b::/96"):
        made = block(asked, closed(Reserved(f"{node}/32", NODE) for node in nodes))
        assert made is not None
        assert closed_addresses(made) == len(nodes)


def outward(spec: PlaneSpec) -> list[dict[str, Any]]:
    policy = next(policy for policy in network.policies(spec) if policy["metadata"]["name"] == "allow-tenant-egress")
    return [peer for rule in policy["spec"]["egress"] for peer in rule["to"] if "ipBlock" in peer]


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254", "10.96.0.1", "10.244.1.7", "172.31.255.1", "fd00:5::1", "fe80::1", "fd00:ec2::254", "168.63.129.16",
        "64:ff9b::a9fe:a9fe", "64:ff9b::ac1f:ff01",
    ],
)  # fmt: skip
def test_everywhere_is_not_the_host(address: str) -> None:
    found = outward(plane_spec(network={"egress_cidrs": ("0.0.0.0/0", "::/0"), "reserved": HOST}))
    assert len(found) == 2
    assert not any(opens(rule, ip_address(address)) for rule in found)
    for outside in ("203.0.113.5", "10.97.0.1", "2600::1", "64:ff9b::cb00:7105"):
        assert any(opens(rule, ip_address(outside)) for rule in found), outside


def test_what_the_class_reaches_on_purpose_is_open_and_no_more_of_it() -> None:
    reach = ("169.254.169.254/32", "10.96.0.64/26")
    (found,) = outward(plane_spec(network={"egress_cidrs": ("0.0.0.0/0",), "reserved": HOST, "reach_reserved": reach}))
    opened = {
        address: opens(found, ip_address(address))
        for address in ("169.254.169.254", "169.254.169.253", "10.96.0.65", "10.96.0.1")
    }
    assert opened == {"169.254.169.254": True, "169.254.169.253": False, "10.96.0.65": True, "10.96.0.1": False}


def test_only_the_class_says_what_of_the_host_is_reached() -> None:
    def built(asked: dict[str, Any], bounds: dict[str, Any]) -> PlaneSpec:
        both = (tenant(isolation={"network": asked}), tenant_class(isolation={"network": bounds}))
        return plane_for(*both)

    everywhere, metadata = {"egressCIDRs": ["0.0.0.0/0"]}, {"reachReserved": ["169.254.169.254/32"]}
    assert built(everywhere | metadata, everywhere).network.reach_reserved == ()
    assert built(everywhere, everywhere | metadata).network.reach_reserved == ("169.254.169.254/32",)
    assert not any(opens(rule, ip_address("10.112.9.9")) for rule in outward(built(everywhere, everywhere)))


@pytest.mark.parametrize(
    ("cidr", "parts"),
    [
        ("10.96.3.0/24", ("10.96.3.0/24", "10.96.0.0/16", SERVICES)),
        ("172.31.255.1/32", ("172.31.255.1/32", NODE)),
        ("169.254.169.254/32", ("169.254.0.0/16", "link-local")),
        ("::ffff:10.96.0.1/128", ("::ffff:10.96.0.1/128", "10.96.0.0/16")),
        ("10.244.0.0/23", ("10.244.0.0/23", PODS)),
        ("100.100.100.200/32", ("100.100.100.200/32", METADATA)),
    ],
)
def test_a_range_of_the_hosts_own_is_not_opened_and_the_tenant_is_told_both(cidr: str, parts: tuple[str, ...]) -> None:
    spec = plane_spec(network={"egress_cidrs": ("203.0.113.0/24", cidr), "reserved": HOST})
    assert outward(spec) == [{"ipBlock": {"cidr": "203.0.113.0/24"}}]
    made = compute(tenant(), spec, Findings(), NOW)
    told = find_condition(made["conditions"], "EgressApplied")
    assert told is not None
    assert (told["status"], told["reason"]) == ("False", Reason.RESERVED_ADDRESSES)
    assert [part for part in (*parts, "reachReserved") if part not in told["message"]] == []
    assert "203.0.113.0/24" not in told["message"]


def test_where_the_range_of_pods_is_not_known_nothing_that_holds_a_pod_is_opened() -> None:
    asked = ("203.0.113.0/24", "10.0.0.0/8")
    spec = plane_spec(network={"egress_cidrs": asked, "reserved": HOST, "pod_addresses": ("10.244.0.9", "10.200.0.7")})
    assert outward(spec) == [{"ipBlock": {"cidr": "203.0.113.0/24"}}]
    (told,) = network.withheld(spec)
    assert [part for part in ("10.0.0.0/8", "10.200.0.7", "podNetworks") if part not in told] == []
    known = plane_spec(
        network={"egress_cidrs": asked, "reserved": (*HOST, Reserved("10.200.0.0/16", PODS)), "pod_addresses": ("10.200.0.7",)}
    )
    assert network.withheld(known) == []
    assert len(outward(known)) == 2


def _of(name: str, direction: str, spec: PlaneSpec) -> list[dict[str, Any]]:
    policy = next(policy for policy in network.policies(spec) if policy["metadata"]["name"] == name)
    peers = {"ingress": "from", "egress": "to"}[direction]
    return [peer for rule in policy["spec"][direction] for peer in rule[peers] if "ipBlock" in peer]


def test_the_tenants_dns_reaches_resolvers_and_neither_pods_nor_services() -> None:
    (found,) = _of("allow-dns", "egress", plane_spec(network={"reserved": HOST}))
    reached, kept = ("172.31.255.1", "168.63.129.16", "9.9.9.9"), ("10.244.0.5", "10.96.0.10", "169.254.1.1")
    assert [address for address in (*reached, *kept) if opens(found, ip_address(address))] == list(reached)
    given_ = plane_spec(network={"reserved": HOST}, installation={"dns_upstreams": ("9.9.9.9", "169.254.20.10", "2620:fe::9")})
    cidrs = [peer["ipBlock"] for peer in _of("allow-dns", "egress", given_)]
    assert cidrs == [{"cidr": "9.9.9.9/32"}, {"cidr": "169.254.20.10/32"}, {"cidr": "2620:fe::9/128"}]


def test_no_pod_of_the_host_is_a_user_of_a_plane_by_its_address_alone() -> None:
    clients = ("0.0.0.0/0", "10.244.0.0/25", "198.51.100.0/24")
    everyone, pods, users = _of(
        "allow-plane", "ingress", plane_spec(network={"reserved": HOST}, installation={"client_cidrs": clients})
    )
    assert not opens(everyone, ip_address("10.244.1.9"))
    assert opens(everyone, ip_address("172.31.255.1"))
    assert (pods, users) == ({"ipBlock": {"cidr": "10.244.0.0/25"}}, {"ipBlock": {"cidr": "198.51.100.0/24"}})


def test_a_host_api_of_either_family_is_one_address() -> None:
    spec = plane_spec(installation={"host_api": (("192.0.2.10", 6443), ("fd00::1", 443))})
    assert [peer["ipBlock"]["cidr"] for peer in _of("allow-syncer", "egress", spec)] == ["192.0.2.10/32", "fd00::1/128"]


def test_reserved_ranges_of_the_installation_are_read_and_checked() -> None:
    found = load({"BULKHEAD_RESERVED_CIDRS": "10.0.0.0/16,fd00::/64", "BULKHEAD_POD_NETWORKS": "10.200.0.0/16"})
    assert Reserved("10.200.0.0/16", PODS) in found.reserved
    assert {"10.0.0.0/16", "fd00::/64", "169.254.0.0/16", "10.112.0.0/12"} <= {range_.cidr for range_ in found.reserved}
    with pytest.raises(SettingsError, match="BULKHEAD_RESERVED_CIDRS"):
        load({"BULKHEAD_RESERVED_CIDRS": "10.0.0.1/16"})


async def test_a_host_api_that_is_not_seen_for_a_moment_is_where_it_was() -> None:
    ranges = HostRanges(cast("Client", None))
    version = 0

    def seen(addresses_: list[str] | None, port: int = 6443) -> None:
        nonlocal version
        version += 1
        meta = {"name": "kubernetes", "namespace": "default", "uid": "u", "resourceVersion": str(version)}
        endpoints = None if addresses_ is None else [{"addresses": addresses_}]
        slice_ = {"metadata": meta, "endpoints": endpoints, "ports": [{"port": port}]}
        ranges._api._put(*compact(msgspec.json.encode(slice_), None), relist=False)

    assert ranges.api() == ()
    seen(["192.0.2.10"])
    # No lookup happened in between.
    seen(["192.0.2.11"])
    for nothing in (None, []):
        seen(nothing)
        assert ranges.api() == (("192.0.2.11", 6443),)
        assert Reserved("192.0.2.11/32", API) in ranges.reserved()
    ranges._api._drop(Key("default", "kubernetes"), relist=True)
    assert ranges.api() == (("192.0.2.11", 6443),)
    seen(["192.0.2.12", "192.0.2.13"], 443)
    assert ranges.api() == (("192.0.2.12", 443), ("192.0.2.13", 443))


@pytest.mark.apiserver
async def test_what_the_host_has_is_seen_and_told_once_it_changes(host_client: Client) -> None:
    name = f"n-{secrets.token_hex(4)}"
    told = asyncio.Event()
    ranges = HostRanges(host_client, told.set, Settings().reserved)
    task = asyncio.create_task(ranges.run())

    async def seen(*wanted: Reserved) -> None:
        async with asyncio.timeout(20):
            while not set(wanted) <= set(ranges.reserved()):
                await told.wait()
                told.clear()

    try:
        await ranges.synced()
        assert SERVICES in {range_.what for range_ in ranges.reserved()}
        pods, own = ("10.244.77.0/24", "fd00:77::/64"), (("InternalIP", "192.0.2.77"), ("ExternalIP", "2600::77"))
        await host_client.create(NODES, {"metadata": {"name": name}, "spec": {"podCIDRs": list(pods)}})
        addresses_ = [{"type": kind, "address": text} for kind, text in (*own, ("Hostname", name))]
        await host_client.patch(NODES, name, {"status": {"addresses": addresses_}}, subresource="status")
        await seen(
            *(Reserved(address, PODS) for address in pods), Reserved("192.0.2.77/32", NODE), Reserved("2600::77/128", NODE)
        )
        meta = {"name": name, "labels": {"kubernetes.io/service-name": "kubernetes"}}
        endpoints = {"endpoints": [{"addresses": ["192.0.2.66"]}], "ports": [{"port": 6443}], "addressType": "IPv4"}
        await host_client.create(ENDPOINT_SLICES, {"metadata": meta, **endpoints}, "default")
        await seen(Reserved("192.0.2.66/32", API))
        assert ("192.0.2.66", 6443) in ranges.api()
        # A slice of a tenant's lies in a range that is known.
        await host_client.create(SERVICE_CIDRS, {"metadata": {"name": name}, "spec": {"cidrs": ["10.112.252.0/22"]}})
        await host_client.create(SERVICE_CIDRS, {"metadata": {"name": f"{name}-b"}, "spec": {"cidrs": ["10.88.0.0/24"]}})
        await seen(Reserved("10.88.0.0/24", SERVICES))
        assert not any(range_.cidr == "10.112.252.0/22" for range_ in ranges.reserved())
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await host_client.delete(NODES, name)
        await host_client.delete(ENDPOINT_SLICES, name, "default")
        for range_name in (name, f"{name}-b"):
            await host_client.delete(SERVICE_CIDRS, range_name)


@pytest.mark.apiserver
async def test_a_real_server_takes_the_policies(host_client: Client) -> None:
    spec = plane_spec(
        tenant=f"t-{secrets.token_hex(4)}",
        network={
            "egress_cidrs": ("0.0.0.0/0", "::/0", "10.0.0.0/8", "::ffff:172.16.0.0/108", "169.254.0.0/15"),
            "reserved": HOST,
            "reach_reserved": ("169.254.169.254/32",),
        },
        installation={"client_cidrs": ("0.0.0.0/0",)},
    )
    for namespace in (spec.namespace, spec.work_namespace):
        await host_client.create(NAMESPACES, {"metadata": {"name": namespace}})
    for policy in network.policies(spec):
        await host_client.apply(NETWORK_POLICIES, policy)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([{"podSelector": {}, "ports": {}}], "a peer must be an object with ipBlock, namespaceSelector, podSelector"),
        ([{"podSelector": []}], "a peer must be an object"),
        ([{}], "a peer must be an object"),
        (["podSelector"], "a peer must be an object"),
        ({"podSelector": {}}, "must be a list of at most 16 peers"),
        ([{"podSelector": {}}] * 17, "must be a list of at most 16 peers"),
    ],
)
def test_what_can_be_no_peer_of_a_policy_is_refused(asked: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        network.peers(json.dumps(asked))
    assert len(network.peers(json.dumps([{"podSelector": {}}] * 16))) == 16
