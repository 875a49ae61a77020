"""Whole chaos runs as their recorders would write them, in which every invariant holds. Tests break one thing at a time.

`python -m tests.e2e_pure.chaosruns FILE` draws the page of a larger one, which shows what a page has.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.chaos import judgement, population
from e2e.chaos.history import (
    CONTROLLER,
    HOST,
    Act,
    Announced,
    Evidence,
    Finding,
    LeaderSeen,
    PartSeen,
    Planted,
    PodSeen,
    Probe,
    Quiet,
    Read,
    Record,
    Rejected,
    Run,
    Scanned,
    Searched,
    Span,
    Use,
    Write,
)
from e2e.chaos.page import document

BEGIN = 100.0
QUIET_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Fault:
    """One experiment of a made-up run. `away` are the seconds from its begin in which its target does not answer."""

    name: str
    title: str
    target: str
    begin: float
    lifted: float
    end: float
    away: float
    hypothesis: str = "the target recovers and the others notice nothing"
    proof: str = "process 4711 killed and gone"
    strain: float = 1.0  # how much slower the others answer meanwhile


TENANTS = ("a", "b", "c")
FAULTS = (
    Fault("killed", "etcd of a killed", "a", 130.0, 134.0, 150.0, 4.0),
    Fault("frozen", "etcd of a frozen", "a", 200.0, 220.0, 230.0, 20.0),
)
END = 300.0


def good_run(tenants: Sequence[str] = TENANTS, faults: Sequence[Fault] = FAULTS, end: float = END) -> list[Record]:
    """The records of a run; by default of two experiments on three tenants."""
    made = _Made(tuple(tenants), tuple(faults), end)
    return [*made.frame(), *made.probes(), *made.steady(), *made.closing()]


@dataclass(frozen=True, slots=True)
class _Made:
    tenants: tuple[str, ...]
    faults: tuple[Fault, ...]
    end: float

    def frame(self) -> Iterator[Record]:
        names = tuple(fault.name for fault in self.faults)
        window = (BEGIN, BEGIN + 20)
        yield Run(
            BEGIN, self.tenants, "2026-11-26T12:00:00+00:00", 7, *window, 0.4, 2, 3.0, 0.15, QUIET_SECONDS, names, "", True
        )  # fmt: skip
        for fault in self.faults:
            yield Announced(fault.begin - 1, fault.name, fault.title, fault.hypothesis, fault.target, "crashes")
            yield Evidence(fault.name, fault.begin + 1, True, fault.proof)
            yield Span(fault.name, fault.target, fault.begin, fault.end, fault.lifted)
            yield Finding(fault.name, fault.title, 2.5, True, "", fault.end)
            idle = fault.target if fault.target in self.tenants else self.tenants[0]
            yield Quiet(fault.end + 10, idle, fault.name, 2.0, QUIET_SECONDS, ())

    def probes(self) -> Iterator[Record]:
        chance = random.Random(3)  # noqa: S311 -- a history that is always the same
        for step in range(int((self.end - BEGIN) * 5)):
            at = BEGIN + step / 5
            fault = next((fault for fault in self.faults if fault.begin <= at < fault.end), None)
            for owner in (*self.tenants, HOST):
                away = fault is not None and fault.target == owner and at < fault.begin + fault.away
                strain = fault.strain if fault is not None and at < fault.lifted else 1.0
                seconds = min(0.06, 0.003 * strain * chance.lognormvariate(0, 0.6))
                kind = "write" if step % 4 == 0 else "read"
                error = "connection refused" if away else ""
                yield Probe(at, owner, kind, 3.0 if away else round(seconds, 4), error)  # type: ignore[arg-type]

    def steady(self) -> Iterator[Record]:
        value = 1000
        for at in range(int(BEGIN), int(self.end), 5):
            yield LeaderSeen(at, "controller-1")
            yield PartSeen(at, "", "controller/controller", "platform", 0)
            yield Use(at, "node", "node-1", 8, 3)
            yield Use(at, "device", "nvidia0", 1, 1, "bh-a-work/stay-gpu")
            yield Rejected(at, "", 0)
            for tenant in self.tenants:
                yield PodSeen(at, "virtual", tenant, f"v-{tenant}", f"v-{tenant}", "stay")
                yield PodSeen(at, "host", tenant, f"h-{tenant}", f"v-{tenant}", "stay-x")
                yield PartSeen(at, tenant, "plane-0/etcd", f"plane-{tenant}", self._restarts(tenant, at))
                yield Use(at, "tenant", tenant, 2, 1)
                yield Act(at, tenant, "pod", 3.0)
                value += 1
                yield Write(at + 1, tenant, "key", value, at + 1.1, True)
                yield Read(at + 2, tenant, "key", value)
                for fault in self.faults:
                    if fault.end <= at < fault.end + 5:
                        yield Read(at + 3, tenant, "key", value, fault.name)

    def closing(self) -> Iterator[Record]:
        for tenant in self.tenants:
            yield Planted(BEGIN - 5, tenant)
            yield Scanned(self.end, tenant, 12, 12, ())
            yield Searched(self.end, tenant, f"log of {tenant}", 500, (), True)
        yield Searched(self.end, HOST, "log of the controller", 9000, ())

    def _restarts(self, tenant: str, at: float) -> int:
        return sum(fault.target == tenant and "killed" in fault.title and at > fault.begin + 3 for fault in self.faults)


EXAMPLE_TENANTS = tuple(member.name for member in population.members(10))
EXAMPLE = (
    Fault(
        "apiserver-killed", "API server of A killed", "chaos-a", 130, 131, 155, 6.4, strain=1.5,
        hypothesis="the kubelet starts it again, and running pods do not notice",
        proof="kube-apiserver: process 4711 killed and gone",
    ),
    Fault(
        "etcd-frozen", "etcd of A frozen for 60 s", "chaos-a", 185, 245, 258, 61.0, strain=1.2,
        hypothesis="the plane answers errors until etcd goes on; nothing on the host is deleted",
        proof="etcd (process 4720) stood still in 100% of 118 samples over 60 s",
    ),
    Fault(
        "flood", "5,000 ConfigMaps and 200 CRDs in A", "chaos-a", 290, 330, 340, 0.0, strain=3.0,
        hypothesis="the API server of A is held to its one core, and the others keep theirs",
        proof="5000 ConfigMaps and 200 CRDs in the target after 38 s (5000 and 200 accepted)",
    ),
    Fault(
        "member-apart", "a member of three cut off", "chaos-ha", 370, 400, 410, 0.0, strain=1.1,
        hypothesis="the other two members serve, and the third catches up",
        proof="412 packets dropped by the rule on the member",
    ),
    Fault(
        "controller-killed", "controller killed while provisioning", CONTROLLER, 440, 441, 470, 0.0, strain=2.0,
        hypothesis="the next leader goes on where it stood, and no plane notices",
        proof="controller: process 4801 killed and gone",
    ),
)  # fmt: skip


if __name__ == "__main__":
    JUDGED = judgement.judge(good_run(EXAMPLE_TENANTS, EXAMPLE, 490.0))
    PAGE = Path(sys.argv[1])
    PAGE.write_text(document.html(JUDGED))
