"""Node ports work inside a tenant, by TCP and UDP, at the address that its nodes show, and for no other tenant."""

from collections.abc import Iterator
from functools import partial

import pytest

from bulkhead import __version__
from e2e import workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl
from e2e.poll import holds, until
from e2e.tenants import Tenant

PYTHON = f"docker.io/bulkhead/bulkhead:{__version__}"  # the host has this image; busybox serves no UDP
PORT = 8080
PROTOCOLS = ("TCP", "UDP")
WAIT = ("python3", "-c", "import time; time.sleep(3600)")  # that image has no shell and no sleep
SERVE = """
import socket, sys, threading
def tcp():
    with socket.create_server(("", 8080)) as server:
        while True:
            with server.accept()[0] as peer:
                peer.sendall(sys.argv[1].encode())
def udp():
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind(("", 8080))
        while True:
            server.sendto(sys.argv[1].encode(), server.recvfrom(64)[1])
threading.Thread(target=udp, daemon=True).start()
tcp()
"""
ASK = """
import socket, sys
kind = socket.SOCK_DGRAM if sys.argv[1] == "UDP" else socket.SOCK_STREAM
with socket.socket(type=kind) as mine:
    mine.settimeout(2)
    mine.connect((sys.argv[2], int(sys.argv[3])))
    if sys.argv[1] == "UDP":
        mine.send(b"?")
    print(mine.recv(64).decode())
"""


def start(tenant: Tenant) -> None:
    """A server behind a NodePort Service, and a client pod."""
    for name, command in (("ports-server", ("python3", "-c", SERVE, tenant.name)), ("ports-client", WAIT)):
        spec = workloads.pod_spec(command)
        spec["containers"][0]["image"] = PYTHON
        tenant.api.apply(workloads.pod(name, spec))
    service = workloads.service("ports", "ports-server", PORT)
    ports = [{"name": protocol.lower(), "protocol": protocol, "port": PORT} for protocol in PROTOCOLS]
    service["spec"] |= {"type": "NodePort", "ports": ports}
    tenant.api.apply(service)
    for name in ("ports-server", "ports-client"):
        workloads.wait_running(tenant.api, name)


@pytest.fixture(scope="module")
def served(alice: Tenant, bob: Tenant) -> Iterator[None]:
    for tenant in (alice, bob):
        start(tenant)
    yield
    for tenant in (alice, bob):
        tenant.api.delete("Service", "ports", "default")
        for name in ("ports-server", "ports-client"):
            tenant.api.delete("Pod", name, "default")


def doors(tenant: Tenant) -> dict[str, tuple[str, int]]:
    """For each protocol: the address of a node as the tenant sees it, and the node port of its Service."""
    node = tenant.api.get("Node", tenant.api.get("Pod", "ports-client", "default")["spec"]["nodeName"])
    address = next(item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP")
    ports: list[Obj] = tenant.api.get("Service", "ports", "default")["spec"]["ports"]
    return {port["protocol"]: (address, port["nodePort"]) for port in ports}


def answers(tenant: Tenant, protocol: str, door: tuple[str, int], text: str) -> None:
    """Inside a wait: continue until the tenant's pod receives `text` there; an empty text stands for no answer."""
    ask = ("exec", "ports-client", "--", "python3", "-c", ASK, protocol, door[0], str(door[1]))
    outcome = kubectl(tenant.kubeconfig, *ask, check=False)
    # A probe that did not run receives nothing either; a probe that fails does so in Python.
    ran = outcome.code == 0 or "Traceback" in outcome.text
    heard = outcome.out.strip() if outcome.code == 0 else ""
    workloads.expect(ran and heard == text, f"{protocol} {door}: heard {heard!r}; {outcome.text[-200:]}")


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_item_79_pods_of_a_tenant_reach_its_node_ports_and_those_of_another_do_not(
    alice: Tenant, bob: Tenant, protocol: str
) -> None:
    door = doors(alice)[protocol]
    for tenant in (alice, bob):
        own = partial(answers, tenant, protocol, doors(tenant)[protocol], tenant.name)
        until(f"{tenant.name}'s pod to reach its own node port by {protocol}", own, seconds=30)
    holds(f"bob's pod kept away from {door}", partial(answers, bob, protocol, door, ""), seconds=5)
    for tenant in (alice, bob):
        own = partial(answers, tenant, protocol, doors(tenant)[protocol], tenant.name)
        until(f"{tenant.name}'s pod to reach its own node port by {protocol} again", own, seconds=30)


@pytest.mark.usefixtures("served")
def test_item_79_no_port_of_the_host_is_opened_and_the_end_of_a_service_ends_its_node_ports(host: Api, alice: Tenant) -> None:
    door = doors(alice)["TCP"]
    until("the node port to answer", partial(answers, alice, "TCP", door, alice.name), seconds=30)
    services = host.list("Service", alice.work)
    assert {service["spec"]["type"] for service in services} == {"ClusterIP"}
    assert {address for service in services for address in service["spec"].get("externalIPs", ())} == {door[0]}
    alice.api.patch("Service", "ports", {"spec": {"type": "ClusterIP"}}, "default")
    until("the node port to be gone", partial(answers, alice, "TCP", door, ""), seconds=30)

    def gone() -> None:
        left = [
            service["metadata"]["name"] for service in host.list("Service", alice.work) if service["spec"].get("externalIPs")
        ]
        workloads.expect(not left, f"still there: {left}")

    until("the host's Service of the node ports to go", gone, seconds=20)
