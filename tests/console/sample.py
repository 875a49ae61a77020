"""Hosts as the console observes them, constructed without a server: small, hostile, in trouble, and large."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bulkhead.api.labels import NVLINK_DOMAIN, RACK
from bulkhead.ledger.model import Flavor, Node, Pod, Rules, Share, Snapshot, Stage, Tenant
from workstation.cli.console.alarms import Closed
from workstation.cli.console.drawing import Observed
from workstation.cli.quotas.hostview import View

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
NOW = 1_790_000_000.0
THEN = "2026-09-21T13:20:00Z"
# Names that people who want to break a page would choose. A name of a pod in a tenant's annotations may be any text.
HOSTILE = (
    "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">",
    "\u202egnp.exe\u202c\u3164 \u0645\u0631\u062d\u0628\u0627",
    "x" * 253,
    "</script><!-- '\"&amp;",
)


def node(
    name: str, room: Mapping[str, int], rack: str = "", domain: str = "", *, usable: bool = True, kind: str = "h100"
) -> Node:
    marks = {RACK: rack, NVLINK_DOMAIN: domain, "gpu": kind}
    return Node(name, {"cpu": 96_000, **room}, labels={key: value for key, value in marks.items() if value}, usable=usable)


def running(name: str, tenant: str, on: str, devices: int, resource: str = GPU) -> Pod:
    return Pod(
        f"uid-{name}", f"bh-{tenant}-work", name, {resource: devices}, Stage.BOUND, created=NOW - 7200, tenant=tenant, node=on,
        virtual_namespace="ml", virtual_name=name, admitted=NOW - 7000, ends_by=NOW + 3600, lasts=10_800,
    )  # fmt: skip


def waiting(name: str, tenant: str, devices: int, virtual: str = "") -> Pod:
    return Pod(
        f"uid-{name}", f"bh-{tenant}-work", name, {GPU: devices}, Stage.WAITING, created=NOW - 600, tenant=tenant,
        virtual_namespace="ml", virtual_name=virtual or name,
    )  # fmt: skip


def stored(name: str, reason: str = "Ready", message: str = "", kind: str = "PlaneReady") -> dict[str, Any]:
    """A Tenant as the host stores it."""
    status = "True" if reason == "Ready" else "False"
    about = {"status": status, "reason": reason, "message": message, "observedGeneration": 1, "lastTransitionTime": THEN}
    return {
        "metadata": {"name": name, "generation": 1},
        "spec": {"class": "standard", "scheduling": {"mode": "Kubernetes"}},
        "status": {"observedGeneration": 1, "conditions": [{"type": kind, **about}, {"type": "Ready", **about}]},
    }


@dataclass
class Host:
    """A host to be changed by a test, and observed."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    tenants: dict[str, Tenant] = field(default_factory=dict)
    stored: dict[str, dict[str, Any]] = field(default_factory=dict)
    closed: dict[str, Closed] = field(default_factory=dict)
    controllers: Sequence[dict[str, Any]] = ({"status": {"readyReplicas": 1}},)

    def tenant(self, name: str, nominal: int, cohort: str = "research") -> None:
        self.tenants[name] = Tenant(name, cohort=cohort, shares={("", GPU): Share(nominal, borrowing=None if cohort else 0)})
        self.stored[name] = stored(name)

    def seen(self) -> Observed:
        flavors = (Flavor("h100", GPU, {"gpu": "h100"}), Flavor("a100", GPU, {"gpu": "a100"}))
        snapshot = Snapshot(self.tenants, tuple(self.nodes), tuple(self.pods), {"research": Rules(flavors=flavors)})
        return Observed(View(snapshot, NOW, self.stored), "lab", tuple(self.controllers), self.closed)


def small() -> Host:
    """Two racks, a MIG node, three tenants: one borrows, one lends, one waits with hostile names."""
    host = Host()
    for rack in (1, 2):
        for number in range(4):
            name = f"gpu-{rack}-{number}"
            host.nodes.append(
                node(name, {GPU: 8}, f"rack-{rack}", f"nvl-{rack}-{number // 2}", kind="h100" if rack == 1 else "a100")
            )
    host.nodes.append(node("mig-0", {MIG: 56}, "rack-2"))
    host.tenant("red", 32)
    host.tenant("blue", 16)
    host.tenant("green", 16)
    host.pods += [running(f"train-{number}", "red", f"gpu-1-{number}", 8) for number in range(4)]
    host.pods += [
        running("wide", "red", "gpu-2-0", 8),
        running("eval", "blue", "gpu-2-1", 3),
        running("web", "green", "gpu-2-1", 2),
    ]
    host.pods += [running("slice", "blue", "mig-0", 9, MIG)]
    host.pods += [waiting(f"wait-{at}", "blue", 16, name) for at, name in enumerate(HOSTILE)]
    return host


def lab() -> Host:
    """A cluster as a research lab has it: four racks of two kinds, a MIG node, four teams, and names of real work."""
    host = Host()
    for rack in range(1, 5):
        for number in range(8):
            name, kind = f"gpu-{rack}{number:02}", "h100" if rack <= 2 else "a100"
            host.nodes.append(node(name, {GPU: 8}, f"rack-{rack}", f"nvl-{rack}-{number // 4}", kind=kind))
    host.nodes.append(node("mig-001", {MIG: 56}, "rack-4"))
    for name, nominal in (("vision", 96), ("speech", 64), ("robotics", 64), ("biology", 32)):
        host.tenant(name, nominal)
    a, b, c, d = "vision", "speech", "robotics", "biology"
    plan = (a, a, a, a, b, b, b, b, a, a, a, a, c, c, a, a, d, d, d, b, b, b, a, a, a, a, a)
    for at, name in enumerate(plan):
        host.pods.append(running(f"{name}-train-{at}", name, host.nodes[at].name, 8))
    for at, (name, amount) in enumerate((("speech", 3), ("biology", 4), ("robotics", 5), ("biology", 2), ("robotics", 6))):
        host.pods.append(running(f"{name}-notebook-{at}", name, host.nodes[len(plan) + at].name, amount))
    host.pods += [running("serve-1", "speech", "mig-001", 14, MIG), running("serve-2", "vision", "mig-001", 21, MIG)]
    host.pods += [
        waiting("w1", "speech", 8, "asr-large-0"),
        waiting("w2", "biology", 8, "fold-evaluation"),
        waiting("w3", "vision", 8, "sweep-17"),
    ]
    return host


def frozen_plane() -> Host:
    """A plane that does not answer."""
    host = lab()
    host.stored["speech"] = stored("speech", "Restarting", "the API server does not answer: no answer within 5 s")
    return host


def exhausted() -> Host:
    """A cohort in which all devices are in use while others wait."""
    host = lab()
    host.pods = [
        running(f"vision-{at}", "vision" if at < 24 else "speech", item.name, 8) for at, item in enumerate(host.nodes[:32])
    ]
    host.pods += [waiting(f"robot-{at}", "robotics", 8, f"grasp-{at}") for at in range(3)]
    return host


def dead_node() -> Host:
    """A node that broke down with work on it."""
    host = lab()
    host.nodes[2] = node("gpu-102", {GPU: 8}, "rack-1", "nvl-1-0", usable=False)
    host.closed["gpu-102"] = Closed("NodeStatusUnknown: Kubelet stopped posting node status", THEN, cordoned=False)
    return host


def large(racks: int = 500, nodes: int = 10, tenants: int = 100) -> Host:
    """So many nodes, all in use."""
    host = Host()
    for at in range(tenants):
        host.tenant(f"team-{at:03}", racks * nodes * 8 // tenants, f"cohort-{at % 10}")
    for at in range(racks * nodes):
        host.nodes.append(node(f"n{at}", {GPU: 8}, f"rack-{at // nodes}", f"nvl-{at // 5}"))
        host.pods += [running(f"p{at}-{part}", f"team-{(at + part) % tenants:03}", f"n{at}", 2) for part in range(4)]
    return host
