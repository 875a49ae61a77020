"""Canaries: listeners in every place of the host to which a tenant could try to have something connect.

    the machine   on the node's own address, and on that of a metadata service
    a pod         of another namespace of the host, by its address and by its Service's

Each notes who connected. Beside them the node counts what the watched addresses send, and how much of it gets past its policies
to where the host listens: also to the ports of its API server, etcd and kubelet, where no canary has room. The positive control
is the herald, a pod of the host that no policy confines: it connects to every place, and each has to hear it.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import bulkhead
from e2e import machine, workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl, run
from e2e.poll import until
from workstation.hostcluster.component import NODE_ADDRESS

SPACE = "e2e-canaries"
PORT = 8443
METADATA = "169.254.169.254"
# Prints a line for each connection: the port, and the client's address.
_PROGRAM = """
import os, socket, sys, threading
def listen(port):
    server = socket.create_server(("", port))
    while True:
        connection, peer = server.accept()
        os.write(1, f"heard {port} {peer[0]}\\n".encode())  # whole lines, whichever thread writes
        connection.close()
for port in map(int, sys.argv[2:]):
    threading.Thread(target=listen, args=(port,), daemon=True).start()
listen(int(sys.argv[1]))
"""
_HERALD = "herald"
_TABLE = "e2e-canaries"
# New connections of the watched addresses: before any rule of the node, and after its policies.
_RULES = """
table inet {table} {{
  set watched {{ type ipv4_addr; }}
  set guarded {{ type ipv4_addr; elements = {{ {guarded} }}; }}
  counter sent {{ }}
  counter arrived {{ }}
  chain before {{
    type filter hook prerouting priority -300;
    ip saddr @watched tcp flags & (syn | ack) == syn counter name sent
  }}
  chain here {{
    type filter hook input priority 300;
    ip saddr @watched tcp flags & (syn | ack) == syn counter name arrived
  }}
  chain there {{
    type filter hook forward priority 300;
    ip saddr @watched ip daddr @guarded tcp flags & (syn | ack) == syn counter name arrived
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Counted:
    """New connections of the watched addresses: sent by them, and arrived where the host or others listen."""

    sent: int
    arrived: int


@dataclass(slots=True)
class Canaries:
    """The listeners, and what they heard."""

    host: Api
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    _peers: list[str] = field(default_factory=list)

    def heard(self) -> list[str]:
        """The address of each client so far, as often as it connected."""
        return [*self._peers, *clients(kubectl(machine.KUBECONFIG, "logs", "-n", SPACE, "canary", "--tail=-1").out)]

    def control(self) -> None:
        """The positive control: the herald connects to every place, every place hears it, and the node counts it."""
        (address,) = watch([self.host.get("Pod", _HERALD, SPACE)["status"]["podIP"]])
        for place, (at, port) in self.places.items():
            before = len(self.heard())
            probe = ("exec", "-n", SPACE, _HERALD, "--", "sh", "-c", f"nc -w 3 {at} {port} </dev/null")
            kubectl(machine.KUBECONFIG, *probe, check=False)

            def more(before: int = before) -> None:
                workloads.expect(len(self.heard()) > before, "the canary heard nothing")

            until(f"{place} to hear the herald", more, seconds=20)
        found = counted()
        assert found.arrived >= len(self.places), f"{address}: {found}"

    def listen(self, server: socket.socket) -> None:
        """Note each client until the listener is closed."""
        while True:
            try:
                connection, peer = server.accept()
            except OSError:
                return
            self._peers.append(str(peer[0]))
            connection.close()


def listener(*ports: int) -> Obj:
    """The spec of a pod that listens on these ports."""
    command = ("python3", "-c", _PROGRAM, *map(str, ports))
    spec = workloads.pod_spec(command, ports=ports)
    spec["containers"][0] |= {"image": f"docker.io/bulkhead/bulkhead:{bulkhead.__version__}", "imagePullPolicy": "IfNotPresent"}
    return spec


def clients(printed: str, port: int = PORT) -> list[str]:
    """The addresses of the clients of a port, in what a listener printed."""
    lines = [line.split() for line in printed.splitlines()]
    return [words[2] for words in lines if words[:2] == ["heard", str(port)]]


def watch(addresses: Iterable[str]) -> list[str]:
    """Count new connections of these addresses from now on, and of no others."""
    listed = list(addresses)
    _nft(
        f"flush set inet {_TABLE} watched\nreset counters table inet {_TABLE}\n"
        f"add element inet {_TABLE} watched {{ {', '.join(listed)} }}"
    )
    return listed


def guard(addresses: Iterable[str]) -> None:
    """Count what arrives at these pods, too."""
    _nft(f"add element inet {_TABLE} guarded {{ {', '.join(addresses)} }}")


def counted() -> Counted:
    """What was counted since `watch`."""
    out = run(["nft", "-j", "list", "counters", "table", "inet", _TABLE]).out
    listed = [entry["counter"] for entry in json.loads(out)["nftables"] if "counter" in entry]
    found = {str(counter["name"]): int(counter["packets"]) for counter in listed}
    return Counted(found["sent"], found["arrived"])


@contextlib.contextmanager
def canaries(host: Api) -> Iterator[Canaries]:
    """The canaries, until the context ends."""
    made = Canaries(host)
    run(["ip", "address", "replace", f"{METADATA}/32", "dev", "lo"])
    server = socket.create_server(("0.0.0.0", 0))  # noqa: S104 - every address is the point
    thread = threading.Thread(target=made.listen, args=(server,), daemon=True)
    thread.start()
    try:
        port = int(server.getsockname()[1])
        _make(host)
        pod = str(workloads.wait_running(host, "canary", namespace=SPACE)["status"]["podIP"])
        workloads.wait_running(host, _HERALD, namespace=SPACE)
        service = str(host.get("Service", "canary", SPACE)["spec"]["clusterIP"])
        made.places |= {
            "the node": (NODE_ADDRESS, port),
            "the metadata service": (METADATA, port),
            "a pod of others": (pod, PORT),
            "a Service of others": (service, PORT),
        }
        _nft(_RULES.format(table=_TABLE, guarded=pod))
        yield made
    finally:
        run(["nft", "delete", "table", "inet", _TABLE], check=False)
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
        run(["ip", "address", "delete", f"{METADATA}/32", "dev", "lo"])
        host.delete("Namespace", SPACE)


def host_ports(host: Api) -> dict[str, tuple[str, int]]:
    """Ports of the host where no canary has room; each answers the node itself, except etcd, which listens on loopback."""
    service = str(host.get("Service", "kubernetes", "default")["spec"]["clusterIP"])
    found = {
        "the host's API": (NODE_ADDRESS, 6443),
        "the kubelet": (NODE_ADDRESS, 10250),
        "the host's API by its Service": (service, 443),
    }
    for address, port in found.values():
        socket.create_connection((address, port), timeout=5).close()
    return found | {"the host's etcd": (NODE_ADDRESS, 2379)}


def _make(host: Api) -> None:
    host.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    host.apply(workloads.pod("canary", listener(PORT), namespace=SPACE))
    host.apply(workloads.pod(_HERALD, namespace=SPACE))
    host.apply(workloads.service("canary", "canary", PORT, namespace=SPACE))


def _nft(script: str) -> None:
    run(["nft", "-f", "-"], given=script)
