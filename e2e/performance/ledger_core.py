"""How many gangs a second the ledger's core admits, alone; a part of `make bench NAME=ledger`.

The shape is the one that Kueue publishes for topology-aware scheduling: 640 nodes in ten racks of 64, two cohorts of three
tenants, 15,000 workloads of 2, 4 or 8 pods that arrive at 40 a second. Here each node has eight GPUs. Racks are required for a
third of the workloads, preferred for a third, and neither for a third. As with a real syncer, a tenant's pods are at the gate
up to its ceiling.

    each virtual second: some end, some come ──> decide over everything ──> admitted ones run for 10 to 20 s

Time is virtual. Only the CPU time of `decide` counts. Of each turn it is the smallest of several identical rounds, so a busy
machine changes the figure little. It calls the ledger's own code, which is what it measures.
"""

import random
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bulkhead.api.labels import GPU, RACK
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Gang, Node, Pod, Share, Snapshot, Stage, Tenant, Topology

_NODES, _RACK, _PER_NODE = 640, 64, 8
_WORKLOADS: Final = 15_000
_A_SECOND: Final = 40
_TENANTS: Final = 6
_ROUNDS: Final = 3
# Number of pods, GPUs of each, seconds, frequency: the small, medium and large workloads of that benchmark.
_SHAPES: Final = ((2, 1, 10.0, 50), (4, 2, 15.0, 30), (8, 4, 20.0, 20))
_TOPOLOGIES: Final = (None, Topology(RACK, required=True), Topology(RACK, required=False))
_LINE: Final = ("", GPU)


@dataclass(slots=True)
class _Tenant:
    """A tenant's workloads that are not at the gate yet, and the GPUs that its host pods request."""

    later: deque[tuple[Pod, ...]] = field(default_factory=deque)
    there: int = 0


class Bench:
    """One run."""

    def __init__(self, workloads: int = _WORKLOADS, nodes: int = _NODES, seed: int = 1) -> None:
        self._dice = random.Random(seed)  # noqa: S311 - a run follows from its seed
        room = {"cpu": 96_000, "memory": 2**40, "pods": 110, GPU: _PER_NODE}
        self._nodes = tuple(
            Node(f"node-{number:03}", room, {RACK: f"rack-{number // _RACK}", "kubernetes.io/hostname": f"node-{number:03}"})
            for number in range(nodes)
        )
        nominal = nodes * _PER_NODE // _TENANTS
        self._ceiling = nominal * 3
        self._tenants = {
            f"team-{number}": Tenant(f"team-{number}", f"cohort-{number % 2}", shares={_LINE: Share(nominal, borrowing=None)})
            for number in range(_TENANTS)
        }
        self._later = {name: _Tenant() for name in self._tenants}
        self._pods: dict[str, Pod] = {}
        self._ends: dict[int, list[Pod]] = {}
        self._left = self._waiting = workloads
        self.turns: list[float] = []

    def run(self) -> Mapping[str, int]:
        """Run until every workload was admitted: the number of gangs, and the size of the snapshots."""
        now = number = admitted = most = 0
        while admitted < self._waiting:
            for pod in self._ends.pop(now, ()):
                del self._pods[pod.uid]
                self._later[pod.tenant].there -= pod.asks[GPU]
            for _ in range(min(_A_SECOND, self._left)):
                self._arrive(number, float(now))
                number += 1
            self._reach_the_gate()
            most = max(most, len(self._pods))
            admitted += self._turn(now)
            now += 1
        return {"core_gangs": admitted, "core_most_pods": most, "core_virtual_s": now}

    def _arrive(self, number: int, now: float) -> None:
        self._left -= 1
        pods, gpus, lasts, _ = self._dice.choices(_SHAPES, [often for *_, often in _SHAPES])[0]
        tenant = f"team-{number % _TENANTS}"
        gang = Gang(f"gang-{number}", pods, self._dice.choice(_TOPOLOGIES))
        asks = {"cpu": gpus * 8000, "memory": gpus * 2**36, GPU: gpus}
        self._later[tenant].later.append(
            tuple(
                Pod(
                    f"{number}-{ordinal}", f"bh-{tenant}-work", f"pod-{number:05}-{ordinal}", asks, Stage.WAITING, now,
                    tenant=tenant, virtual_namespace="bench", virtual_name=f"{number}-{ordinal}", gang=gang, lasts=lasts,
                )
                for ordinal in range(pods)
            )
        )  # fmt: skip

    def _reach_the_gate(self) -> None:
        for item in self._later.values():
            while item.later:
                pods = item.later[0]
                asked = sum(pod.asks[GPU] for pod in pods)
                if item.there + asked > self._ceiling:
                    break
                item.later.popleft()
                item.there += asked
                self._pods.update((pod.uid, pod) for pod in pods)

    def _turn(self, now: int) -> int:
        """One decision, applied at once. Returns the number of gangs that it admitted."""
        snapshot = Snapshot(self._tenants, self._nodes, tuple(self._pods.values()))
        begin = time.process_time()
        decisions = decide(snapshot, float(now))
        self.turns.append(time.process_time() - begin)
        assert not decisions.reclaim, (
            "all pods run for a shorter time than the minimum runtime that protects them from a reclaim"
        )
        gangs = set()
        for admission in decisions.admit:
            lasts = admission.pod.lasts or 0.0
            self._pods[admission.pod.uid] = replace(
                admission.pod, stage=Stage.BOUND, node=admission.node, admitted=float(now), ends_by=now + lasts
            )
            self._ends.setdefault(now + int(lasts), []).append(admission.pod)
            gangs.add(admission.pod.gang)
        return len(gangs)


def measure(rounds: int = _ROUNDS, **sizes: int) -> Mapping[str, Any]:
    """The figures of one whole run."""
    least: list[float] = []
    found: Mapping[str, int] = {}
    for _ in range(rounds):
        bench = Bench(**sizes)
        found = bench.run()
        least = [min(pair) for pair in zip(least or bench.turns, bench.turns, strict=True)]
    ordered = sorted(least)
    return {
        "core_gangs_per_s": round(found["core_gangs"] / sum(least), 1),
        **found,
        "core_decide_p50_ms": round(ordered[len(ordered) // 2] * 1e3, 1),
        "core_decide_p95_ms": round(ordered[len(ordered) * 95 // 100] * 1e3, 1),
    }
