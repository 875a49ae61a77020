"""A class that allows every address allows the world outside, and nothing of the host: neither its API nor its nodes' ports.

The same holds for servers from which nodes mount volumes: the second outside address becomes one as soon as a volume of the
host refers to it.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from e2e import tenants, workloads
from e2e.api import Api
from e2e.commands import kubectl, run
from e2e.fleet import Fleet
from e2e.poll import holds, until
from e2e.scenarios.core.shared import with_every_address as ahead
from e2e.tenants import Tenant
from workstation.hostcluster.component import NODE_ADDRESS

OUTSIDE, SERVER, METADATA = "198.18.77.77", "198.18.77.78", "169.254.77.77"
VOLUME = "e2e-outward-server"


@pytest.fixture(scope="module")
def listening() -> Iterator[int]:
    """A server on every address of the machine: one address is outside of the host, and one is link-local."""
    for address in (OUTSIDE, SERVER, METADATA):
        run(["ip", "address", "replace", f"{address}/32", "dev", "lo"])
    server = socket.create_server(("0.0.0.0", 0))  # noqa: S104 - every address is the point
    thread = threading.Thread(target=_answer, args=(server,), daemon=True)
    thread.start()
    yield int(server.getsockname()[1])
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()
    for address in (OUTSIDE, SERVER, METADATA):
        run(["ip", "address", "delete", f"{address}/32", "dev", "lo"])


@pytest.fixture(scope="module")
def outward(fleet: Fleet) -> Iterator[Tenant]:
    """A tenant of a class that allows every address."""
    tenant = fleet.take(ahead(fleet))
    tenant.api.apply(workloads.pod("walker"))
    workloads.wait_running(tenant.api, "walker")
    yield tenant
    tenant.api.delete("Pod", "walker", "default", grace=0)


def test_everywhere_is_not_the_host(host: Api, alice: Tenant, outward: Tenant, listening: int) -> None:
    alice.api.apply(workloads.pod("open-house", workloads.pod_spec(workloads.web_server("alice"), ports=[8080])))
    neighbour = workloads.wait_running(alice.api, "open-house")["status"]["podIP"]
    service = host.get("Service", "kubernetes", "default")["spec"]["clusterIP"]
    outside = partial(opens, outward, OUTSIDE, listening, wanted=True)
    until("what is outside to be reached", outside, seconds=20)
    for what, address, port in (
        ("a link-local address", METADATA, listening),
        ("a port of the node", NODE_ADDRESS, listening),
        ("the kubelet", NODE_ADDRESS, 10250),
        ("the host's API", NODE_ADDRESS, 6443),
        ("the host's API by its Service", service, 443),
        ("another tenant's pod", neighbour, 8080),
    ):
        if address != neighbour:
            socket.create_connection((address, port), timeout=5).close()  # the node itself reaches it
        holds(f"{what} out of reach", partial(opens, outward, address, port, wanted=False), seconds=1)
    until("what is outside to be reached again", outside, seconds=20)
    condition = tenants.conditions(host.get("Tenant", outward.name))["EgressApplied"]
    assert condition["status"] == "True"


@pytest.fixture
def volume(host: Api) -> Iterator[Callable[[str], None]]:
    """An NFS volume on the host; no kubelet mounts it."""

    def served_by(server: str) -> None:
        host.delete("PersistentVolume", VOLUME)
        until(
            "the volume to be gone",
            lambda: workloads.expect(host.find("PersistentVolume", VOLUME) is None, "there"),
            seconds=30,
        )
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "none",
            "nfs": {"server": server, "path": "/export"},
        }
        host.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": VOLUME}, "spec": spec})

    yield served_by
    host.delete("PersistentVolume", VOLUME)


def test_no_server_of_the_hosts_volumes_is_reached(
    host: Api, outward: Tenant, listening: int, volume: Callable[[str], None]
) -> None:
    # The tenant reaches it like any outside address, as long as the host has no such volume.
    until("the machine to be reached", partial(opens, outward, SERVER, listening, wanted=True), seconds=30)
    volume(SERVER)
    until("the server to be closed", partial(opens, outward, SERVER, listening, wanted=False), seconds=60)
    until("what is outside to be reached", partial(opens, outward, OUTSIDE, listening, wanted=True), seconds=20)
    assert "StorageClosed" not in tenants.conditions(host.get("Tenant", outward.name))
    volume("nfs.example.org")
    said = tenants.wait_condition(host, outward.name, "StorageClosed", status="False", reason="ServersByName")
    assert "nfs.example.org" in said["message"]
    until("the machine to be reached again", partial(opens, outward, SERVER, listening, wanted=True), seconds=60)


def test_a_range_of_the_host_is_refused_by_name(host: Api, outward: Tenant) -> None:
    wanted = {"isolation": {"network": {"egressCIDRs": ["198.18.0.0/16", f"{NODE_ADDRESS}/32"]}}}
    host.patch("Tenant", outward.name, {"spec": wanted})
    condition = tenants.wait_condition(host, outward.name, "EgressApplied", status="False", reason="ReservedAddresses")
    assert f"{NODE_ADDRESS}/32" in condition["message"]
    host.patch("Tenant", outward.name, {"spec": {"isolation": None}})
    tenants.wait_condition(host, outward.name, "EgressApplied", status="True")


def opens(tenant: Tenant, address: str, port: int, *, wanted: bool) -> None:
    probe = ("exec", "walker", "--", "sh", "-c", f"nc -w 2 {address} {port} </dev/null")
    outcome = kubectl(tenant.kubeconfig, *probe, check=False)
    # The host's policies drop what they do not allow; any other failure has another cause.
    said = outcome.code == 0 if wanted else "nc: timed out" in outcome.text
    workloads.expect(said, f"{address}:{port}: exit code {outcome.code}: {outcome.text}")


def _answer(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        connection.close()
