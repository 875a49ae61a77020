"""A whole chaos run as its recorders would write it, in which every invariant holds. Tests break one thing in it at a time."""

import random
from collections.abc import Iterator

from e2e.chaos.history import (
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

TENANTS = ("a", "b", "c")
BEGIN = 100.0
END = 300.0
FAULTS = (("killed", "a", 130.0, 134.0, 150.0), ("frozen", "a", 200.0, 220.0, 230.0))
QUIET_SECONDS = 5.0


def good_run() -> list[Record]:
    """The records of a run of two experiments on three tenants."""
    return [*_frame(), *_probes(), *_steady(), *_closing()]


def _frame() -> Iterator[Record]:
    yield Run(
        BEGIN,
        TENANTS,
        "2026-11-26T12:00:00+00:00",
        7,
        BEGIN,
        BEGIN + 20,
        0.4,
        2,
        3.0,
        0.15,
        QUIET_SECONDS,
        tuple(fault[0] for fault in FAULTS),
        "python -m e2e.chaos --short",
    )
    for name, target, begin, lifted, end in FAULTS:
        title = f"etcd of {target} {name}"
        yield Announced(begin - 1, name, title, "the target recovers and the others notice nothing", target, "crashes")
        yield Evidence(name, begin + 1, True, "process 4711 killed and gone")
        yield Span(name, target, begin, end, lifted)
        yield Finding(name, title, 2.5, True, "", end)
        yield Quiet(end + 10, target, name, 2.0, QUIET_SECONDS, ())


def _probes() -> Iterator[Record]:
    chance = random.Random(3)  # noqa: S311 -- a history that is always the same
    for step in range(int((END - BEGIN) * 5)):
        at = BEGIN + step / 5
        for owner in (*TENANTS, HOST):
            away = any(target == owner and begin <= at < lifted for _, target, begin, lifted, _ in FAULTS)
            kind = "write" if step % 4 == 0 else "read"
            seconds = min(0.06, 0.003 * chance.lognormvariate(0, 0.6))
            yield Probe(at, owner, kind, 3.0 if away else seconds, "connection refused" if away else "")  # type: ignore[arg-type]


def _steady() -> Iterator[Record]:
    value = 1000
    for at in range(int(BEGIN), int(END), 5):
        yield LeaderSeen(at, "controller-1")
        yield PartSeen(at, "", "controller/controller", "platform", 0)
        yield Use(at, "node", "node-1", 8, 3)
        yield Use(at, "device", "nvidia0", 1, 1, "bh-a-work/stay-1")
        yield Rejected(at, "", 0)
        for tenant in TENANTS:
            yield PodSeen(at, "virtual", tenant, f"v-{tenant}", f"v-{tenant}", "stay-0")
            yield PodSeen(at, "host", tenant, f"h-{tenant}", f"v-{tenant}", "stay-0-x")
            yield PartSeen(at, tenant, "plane-0/etcd", f"plane-{tenant}", 0)
            yield Use(at, "tenant", tenant, 2, 1)
            yield Act(at, tenant, "pod", 3.0)
            value += 1
            yield Write(at + 1, tenant, "key", value, at + 1.1, True)
            yield Read(at + 2, tenant, "key", value)
            for name, *_, end in FAULTS:
                if end <= at < end + 5:
                    yield Read(at + 3, tenant, "key", value, name)


def _closing() -> Iterator[Record]:
    for tenant in TENANTS:
        yield Planted(BEGIN - 5, tenant)
        yield Scanned(END, tenant, 12, 12, ())
        yield Searched(END, tenant, f"log of {tenant}", 500, (), True)
    yield Searched(END, HOST, "log of the controller", 9000, ())
