"""Which lines of a kubelet's page are a tenant's, and what a hostile page does."""

import pytest

from bulkhead import podfigures
from bulkhead.gpus.attribution import Name
from bulkhead.podfigures import FIGURES, MAX_INTERFACES, Kept, figures
from tests.nodefigures.pages import BLUE, RED, disk, network, page, plain, slice_of

WORK = "bh-red-work"
POD = Name(WORK, "web-x")
PODS = {POD: RED}


def values(*lines: str, pods: dict[Name, str] = PODS) -> dict[tuple[str, str, str], float]:
    found = figures(page(lines), "n1", pods)
    return {
        (sample.name, sample.labels.get("container", ""), sample.labels.get("interface", "")): sample.value
        for samples in found.by_pod.values()
        for sample in samples
    }


@pytest.mark.parametrize("group", [slice_of, plain])
def test_a_pods_own_lines_count_and_say_nothing_of_the_host(group: object) -> None:
    assert callable(group)
    lines = (
        network(WORK, "web-x", group(RED), 1000),
        disk(WORK, "web-x", group(RED, "c1"), 30),
        disk(WORK, "web-x", group(RED, "c1"), 12, device="/dev/sdb"),
    )
    found = figures(page(lines), "n1", PODS)
    assert found.left_out == 0
    by_name = {sample.name: sample for sample in found.by_pod[POD]}
    received, written = by_name["container_network_receive_bytes_total"], by_name["container_fs_writes_bytes_total"]
    owner = {"namespace": WORK, "pod": "web-x", "uid": RED, "node": "n1"}
    assert (received.value, received.labels) == (1000, owner | {"interface": "eth0"})
    assert (written.value, written.labels) == (42, owner | {"container": "main"}), "disks are added up, and not named"


ATTACKS = {
    "another tenant's pod": network("bh-blue-work", "web-x", slice_of(RED), 1),
    "another tenant's group under its own name": network(WORK, "web-x", slice_of(BLUE), 1),
    "a predecessor of the same name": disk(WORK, "web-x", slice_of(BLUE, "c"), 1),
    "a group within another's": disk(WORK, "web-x", slice_of(BLUE) + "/" + slice_of(RED)[1:], 1),
    "a group that only ends like a pod's": disk(WORK, "web-x", f"/system.slice/x-notpod{RED}", 1),
    "the pod of no tenant": network("kube-system", "web-x", slice_of(RED), 1),
    "a namespace that only ends so": network("team-work", "web-x", slice_of(RED), 1),
    "no group": network(WORK, "web-x", "", 1),
    "the node itself": network("", "", "/", 1),
    "network by no interface": network(WORK, "web-x", slice_of(RED), 1, interface=""),
    "a disk of no container": disk(WORK, "web-x", slice_of(RED), 1, container=""),
    "the size of the node's disk": disk(WORK, "web-x", slice_of(RED, "c"), 1, name="container_fs_limit_bytes"),
    "two lines in one": network(WORK, 'web-x",namespace="bh-blue-work', slice_of(RED), 1),
    "a long line": network(WORK, "web-x", slice_of(RED) + "/x" * 4000, 1),
    "not a number": network(WORK, "web-x", slice_of(RED), float("nan")),
    "no end": network(WORK, "web-x", slice_of(RED), float("inf")),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_else_counts(attack: str) -> None:
    own = network(WORK, "web-x", slice_of(RED), 7, name="container_network_transmit_bytes_total")
    assert values(ATTACKS[attack], own) == {("container_network_transmit_bytes_total", "", "eth0"): 7}


def test_a_long_reference_to_an_image_loses_no_line() -> None:
    longest = f"registry.example.org:5000/{'team/' * 40}{'x' * 29}:{'v' * 128}@sha256:{'0' * 64}"
    assert len(longest) > 400
    assert values(disk(WORK, "web-x", slice_of(RED, "c1"), 30, image=longest)) == {
        ("container_fs_writes_bytes_total", "main", ""): 30
    }


def test_a_node_that_is_a_container_itself_has_long_paths() -> None:
    nested = f"/system.slice/docker-{'a' * 64}.scope" * 3 + slice_of(RED, "c" * 64)
    assert len(nested) > 253
    assert values(disk(WORK, "web-x", nested, 30)) == {("container_fs_writes_bytes_total", "main", ""): 30}


@pytest.mark.parametrize("changed", [{"container": "m" * 254}, {"device": "/dev/" + "x" * 249}])
def test_what_is_read_keeps_its_bound(changed: dict[str, str]) -> None:
    found = figures(page([disk(WORK, "web-x", slice_of(RED, "c1"), 30, **changed)]), "n1", PODS)
    assert (found.by_pod, found.left_out) == ({}, 1)


def test_a_pod_has_a_bounded_number_of_interfaces() -> None:
    lines = [network(WORK, "web-x", slice_of(RED), 1, interface=f"veth{number}") for number in range(100)]
    found = figures(page(lines), "n1", PODS)
    assert len(found.by_pod[POD]) == MAX_INTERFACES
    assert found.left_out == 100 - MAX_INTERFACES


def test_a_counter_is_never_below_zero() -> None:
    assert values(network(WORK, "web-x", slice_of(RED), -5)) == {("container_network_receive_bytes_total", "", "eth0"): 0}


def test_each_name_has_a_type_and_a_help() -> None:
    assert {kind for kind, _ in FIGURES.values()} == {"counter", "gauge"}
    assert all(text.endswith(".") for _, text in FIGURES.values())
    assert not [name for name in FIGURES if "limit" in name or "inodes" in name], "these tell of the node's disks"


def test_a_page_that_is_long_for_the_pods_of_one_tenant_hides_no_other() -> None:
    """A pod may have a hundred containers, and a container has some 23 KiB on a page: 800 of them are 18 MiB."""
    other = f'container_memory_usage_bytes{{container="c",id="{"x" * 300}",namespace="bh-blue-work",pod="many"}} 1\n'.encode()
    mine = page([network("bh-red-work", "web-x", slice_of(RED), 5)])
    pods, kept = {Name("bh-red-work", "web-x"): RED}, Kept()
    whole = other * (18 * 1024 * 1024 // len(other)) + mine
    for at in range(0, len(whole), 65_536):
        kept.feed(whole[at : at + 65_536])
    assert len(kept.page()) < 1024
    assert figures(kept.page(), "n1", pods) == figures(mine, "n1", pods) != figures(b"", "n1", pods)


def test_lines_that_may_count_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(podfigures, "MAX_KEPT_BYTES", 2000)
    kept, line = Kept(), network("bh-red-work", "web-x", slice_of(RED), 5).encode()
    with pytest.raises(ValueError, match="more than 1 KiB of tenants"):
        kept.feed((line + b"\n") * 20)
