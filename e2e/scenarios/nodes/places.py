"""The real nodes of a host of three, which parts run on them, and how to lose one of them for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from e2e import commands, workloads
from e2e.api import Api, Obj
from e2e.machine import NODE
from e2e.poll import until
from e2e.tenants import Tenant

FIRST, SECOND, THIRD = REAL = (NODE, f"{NODE}-2", f"{NODE}-3")
PORT = 8080
FLAGS = ("--registry", "--simulated-nodes", "1")  # flags of `host up`, in addition to the number of nodes


def on(node: str) -> Obj:
    """A node selector."""
    return {"kubernetes.io/hostname": node}


@contextmanager
def only(host: Api, node: str) -> Iterator[None]:
    """Until the block ends, no other real node accepts new pods."""
    others = [item for item in REAL if item != node]
    for other in others:
        host.patch("Node", other, {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        for other in others:
            host.patch("Node", other, {"spec": {"unschedulable": False}})


@contextmanager
def lost(host: Api, node: str, how: str) -> Iterator[None]:
    """Until the block ends, the node is away, and the host has noticed."""
    commands.bulkhead("host", "node", "lose", node, "--how", how)
    try:
        until(f"{node} to be missed", lambda: workloads.expect(not ready(host, node), "Ready"), seconds=90)
        yield
    finally:
        commands.bulkhead("host", "node", "return", node)


def ready(host: Api, node: str) -> bool:
    """Whether the host finds the node ready."""
    condition = workloads.condition(host.get("Node", node), "Ready")
    return condition is not None and condition["status"] == "True"


def web(name: str, **where: object) -> Obj:
    """A pod that serves its own name."""
    spec = workloads.pod_spec(workloads.web_server(name, PORT), ports=[PORT], **where)  # type: ignore[arg-type]
    return workloads.pod(name, spec, labels={"app": name, "group": "web"})


def fetch(tenant: Tenant, pod: str, address: str) -> str:
    """A pod's answer from a web server at this address, within two seconds."""
    wget = ("exec", pod, "--", "timeout", "2", "wget", "-q", "-O", "-", f"http://{address}:{PORT}")
    return commands.kubectl(tenant.kubeconfig, *wget, check=False).out.strip()


def gets(tenant: Tenant, pod: str, address: str, wanted: str) -> None:
    """Inside a wait: the pod must get exactly this; `""` means no answer."""
    found = fetch(tenant, pod, address)
    workloads.expect(found == wanted, f"{pod} got {found!r} from {address}, not {wanted!r}")
