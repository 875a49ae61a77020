"""Computes how many workers the waiting jobs need, by their sizes. Pure.

Jobs are placed in Slurm's order: first onto free resources of workers, then onto new workers, as far as bounds and quota allow.
A job is placed as a whole or not at all: half of the nodes of an MPI job are useless, and a job that can never fit starts no
worker.

If the ledger admits workers, jobs request the quota that it would give now. Beyond that, up to the ceiling, only one job at a
time requests workers. The ledger must know of that job to reclaim quota for it, and further jobs would only use up the ceiling
that the tenant's other pods need.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from controller.slurm.answers.view import SlurmJob, SlurmView
from controller.slurm.lease.fleet import Free, Worker
from controller.slurm.spec import NodeSetSpec

# The reasons for waiting that more workers can remove; not holds, dependencies, limits or licences.
HELPED: Final = frozenset(
    {"None", "Resources", "Priority", "PartitionConfig", "PartitionNodeLimit", "NodeDown", "ReqNodeNotAvail"}
)
STUCK: Final = timedelta(seconds=45)
_MOST_PIECES: Final = 4096
_MOST_VISITS: Final = 400_000  # workers that are looked at for all jobs of a cluster: some 0.2 s


@dataclass(slots=True)
class _Bin:
    """The free resources of one worker; a `new` one does not exist yet."""

    node_set: str
    gpus: int
    cpus: int
    memory_mib: int
    untouched: bool = True
    name: str = ""
    # Whether Slurm has had it for a while, with other jobs on it.
    shared: bool = False

    def holds(self, piece: "_Piece") -> bool:
        if (piece.exclusive and not self.untouched) or (piece.stuck and self.shared):
            return False
        return piece.gpus <= self.gpus and piece.cpus <= self.cpus and piece.memory_mib <= self.memory_mib

    def take(self, piece: "_Piece") -> None:
        self.untouched = False
        self.gpus = 0 if piece.exclusive else self.gpus - piece.gpus
        self.cpus = 0 if piece.exclusive else self.cpus - piece.cpus
        self.memory_mib = 0 if piece.exclusive else self.memory_mib - piece.memory_mib


@dataclass(frozen=True, slots=True)
class _Piece:
    """A job's part on one node."""

    gpus: int
    cpus: int
    memory_mib: int
    exclusive: bool
    stuck: bool = False


class _Gpus:
    """The quota that is left for new workers."""

    def __init__(self, free: Mapping[str, Free], *, any_waits: bool) -> None:
        self._most = {resource: room.most for resource, room in free.items()}
        self._soon = {resource: room.soon for resource, room in free.items() if room.soon is not None}
        # Whether no worker waits at the ledger's gate yet.
        self._first = not any_waits

    def most(self, node_set: NodeSetSpec) -> int | None:
        """The most workers of a set that may be requested; None if nothing limits the set."""
        if not node_set.gpus or node_set.gpu_resource not in self._most:
            return None
        return self._most[node_set.gpu_resource] // node_set.gpus

    def soon(self, node_set: NodeSetSpec) -> int | None:
        """How many of them would start soon."""
        most = self.most(node_set)
        if most is None or node_set.gpu_resource not in self._soon:
            return most
        return min(most, max(int(self._first), self._soon[node_set.gpu_resource] // node_set.gpus))

    def gives(self, node_set: NodeSetSpec, count: int) -> bool:
        """Whether `count` workers may be requested at once."""
        most, soon = self.most(node_set), self.soon(node_set)
        if most is None or soon is None or count <= soon:
            return True
        return self._first and count <= most

    def take(self, node_set: NodeSetSpec, count: int) -> None:
        """Count these workers as requested."""
        resource, gpus = node_set.gpu_resource, count * node_set.gpus
        if not gpus or resource not in self._most:
            return
        self._most[resource] -= gpus
        if resource in self._soon:
            self._first = self._first and gpus <= self._soon[resource]
            self._soon[resource] = max(0, self._soon[resource] - gpus)


@dataclass(frozen=True, slots=True)
class Demand:
    """What the waiting jobs need of each NodeSet: new workers, and which of the existing ones."""

    more: Mapping[str, int]
    needed: frozenset[str]


def demand(
    node_sets: Iterable[NodeSetSpec],
    view: SlurmView,
    workers: Iterable[Worker],
    *,
    room: Mapping[str, int],
    free: Mapping[str, Free],
    now: datetime,
    settle: timedelta,
) -> Demand:
    """Place the waiting jobs; `room` is how many more workers each NodeSet may get, `free` the quota that is left."""
    sets, workers = {node_set.name: node_set for node_set in node_sets}, tuple(workers)
    bins = [bin_ for bin_ in (_free(view, worker, sets) for worker in workers) if bin_ is not None]
    gpus = _Gpus(free, any_waits=any(not worker.host_node for worker in workers))
    if view.jobs is None:
        # There are too many jobs to read: that many can use every possible worker.
        return _everything(sets, view, dict(room), gpus, bins)
    by_set = {name: [bin_ for bin_ in bins if bin_.node_set == name] for name in sets}
    places = _Places(by_set, dict(room), gpus, _MOST_VISITS)
    named: set[str] = set()
    for job in sorted(view.jobs, key=lambda job: (-job.priority, job.job_id)):
        if not _wants(job, now, settle):
            continue
        # Without a worker that it names a job could never start.
        named |= job.required
        for node_set in _candidates(job, sets):
            if _copies_laid(places, job, node_set, now) == job.copies:
                break
    return Demand(
        more={name: sum(not bin_.name for bin_ in places.bins[name]) for name in sets},
        needed=frozenset(bin_.name for bin_ in bins if bin_.name in named or not bin_.untouched or places.visits <= 0),
    )


def _copies_laid(places: "_Places", job: SlurmJob, node_set: NodeSetSpec, now: datetime) -> int:
    """Place the copies of a job on a NodeSet until one does not fit; returns how many did."""
    parts = _parts(job, node_set, now)
    if parts is None:
        return 0
    laid = 0
    while laid < min(job.copies, _MOST_PIECES) and places.lay(job, node_set, *parts):
        laid += 1
    return laid


@dataclass(slots=True)
class _Places:
    """Where jobs may be placed: the workers of each NodeSet, how many more it may get, and the quota for these.

    All of it only becomes less, so a part that a worker could not hold, it never can. Only so many workers are looked at in one
    reconcile, because a tenant decides how many jobs and pods there are: all tenants wait meanwhile. Beyond that no job is
    placed, and no worker is given back.
    """

    bins: dict[str, list[_Bin]]
    room: dict[str, int]
    gpus: _Gpus
    visits: int
    # NodeSet and part -> the first worker that may still hold it.
    starts: dict[tuple[str, _Piece], int] = field(default_factory=dict)
    # What did not fit, of jobs that name no workers.
    refused: set[tuple[str, _Piece, int]] = field(default_factory=set)

    def lay(self, job: SlurmJob, node_set: NodeSetSpec, piece: _Piece, count: int) -> bool:
        """Place one copy of a job, of equal parts, on distinct workers; nothing is changed if it does not fit."""
        names_workers = bool(job.required or job.excluded)
        key = (node_set.name, piece, count)
        if self.visits <= 0 or (not names_workers and key in self.refused):
            return False
        found = self._named(job, node_set, piece, count) if names_workers else self._first(node_set, piece, count)
        laid = found is not None and self._fill(found, node_set, piece, count)
        if not laid and not names_workers:
            self.refused.add(key)
        return laid

    def _first(self, node_set: NodeSetSpec, piece: _Piece, count: int) -> list[_Bin]:
        """The first workers that hold a part, at most `count`."""
        mine, start = self.bins[node_set.name], self.starts.get((node_set.name, piece), 0)
        found: list[_Bin] = []
        for index in range(start, len(mine)):
            self.visits -= 1
            if mine[index].holds(piece):
                start = start if found else index
                found.append(mine[index])
                if len(found) == count:
                    break
        self.starts[node_set.name, piece] = start if found else len(mine)
        return found

    def _named(self, job: SlurmJob, node_set: NodeSetSpec, piece: _Piece, count: int) -> list[_Bin] | None:
        """The same for a job that names workers; None if it has to wait for one of those: no other can take its place."""
        mine = [bin_ for bin_ in self.bins[node_set.name] if bin_.name not in job.excluded]
        self.visits -= len(self.bins[node_set.name])
        must = [bin_ for bin_ in mine if bin_.name in job.required and bin_.holds(piece)]
        if len(must) < len(job.required) or len(must) > count:
            return None
        others = [bin_ for bin_ in mine if bin_.name not in job.required and bin_.holds(piece)]
        return [*must, *others][:count]

    def _fill(self, found: list[_Bin], node_set: NodeSetSpec, piece: _Piece, count: int) -> bool:
        """Put the parts on these workers and, for the rest, on new ones."""
        missing = count - len(found)
        if missing and not _new(node_set).holds(piece):
            return False
        if missing > self.room.get(node_set.name, 0) or (missing and not self.gpus.gives(node_set, missing)):
            return False
        made = [_new(node_set) for _ in range(missing)]
        self.bins[node_set.name] += made
        self.room[node_set.name] = self.room.get(node_set.name, 0) - missing
        self.gpus.take(node_set, missing)
        for place in (*found, *made):
            place.take(piece)
        return True


def _parts(job: SlurmJob, node_set: NodeSetSpec, now: datetime) -> tuple[_Piece, int] | None:
    """A job in equal parts, and their number: as few nodes as it requests and fits on. None if it fits on none."""
    count = job.node_count
    for wanted, there in ((job.gpus, node_set.gpus), (job.cpus, node_set.cpus), (job.memory_mib, node_set.memory_mib)):
        if wanted and not there:
            return None
        count = max(count, _over(wanted, there) if there else 1)
    if count > _MOST_PIECES:
        return None
    # Slurm does not show all requests of a job, such as exclusive use of a node. If Slurm has not started a job next to others
    # for this long, it will not start it there.
    stuck = job.submitted is not None and now - job.submitted >= STUCK
    return _Piece(_over(job.gpus, count), _over(job.cpus, count), _over(job.memory_mib, count), job.exclusive, stuck), count


def _over(wanted: int, size: int) -> int:
    return -(-wanted // size)


def is_helped(job: SlurmJob) -> bool:
    """Whether more workers could let a waiting job start."""
    reason = job.reason.partition(",")[0].strip()
    return job.pending and not job.held and (reason in HELPED or not reason)


def _wants(job: SlurmJob, now: datetime, settle: timedelta) -> bool:
    return is_helped(job) and (job.submitted is None or now - job.submitted >= settle)


def _candidates(job: SlurmJob, sets: Mapping[str, NodeSetSpec]) -> Iterator[NodeSetSpec]:
    for name in dict.fromkeys(job.partitions):
        node_set = sets.get(name)
        has_gpus = node_set is not None and job.gpu_types <= {node_set.gpu_type.lower()}
        if node_set is not None and has_gpus and node_set.partition.enabled and _has(node_set, job.features):
            yield node_set


def _has(node_set: NodeSetSpec, features: str) -> bool:
    """Whether the workers have the features that a job requests; anything beyond a plain conjunction is left to Slurm."""
    if not features or any(character in features for character in "|[]()*"):
        return True
    return {word.strip() for word in features.replace(",", "&").split("&") if word.strip()} <= {
        node_set.name,
        *node_set.features,
    }


def _free(view: SlurmView, worker: Worker, sets: Mapping[str, NodeSetSpec]) -> _Bin | None:
    """A worker's free resources: all of them while it starts, none while it drains or does not answer."""
    node_set = sets.get(worker.node_set)
    if node_set is None:
        return None
    node = view.node(worker.name)
    if node is None:
        made = _new(node_set)
        made.name = worker.name
        return made
    if node.draining or not node.responds:
        return None
    # A worker from before its set was changed has the sizes with which it registered.
    gpus, cpus, memory_mib = node_set.gpus, node_set.cpus, node_set.memory_mib
    if node.cpus:
        gpus, cpus, memory_mib = min(gpus, node.gpus), min(cpus, node.cpus), min(memory_mib, node.memory_mib)
    return _Bin(
        node_set.name,
        max(0, gpus - node.gpus_used),
        max(0, cpus - node.cpus_used),
        max(0, memory_mib - node.memory_used_mib),
        untouched=not node.busy,
        name=worker.name,
        shared=node.busy,
    )


def _new(node_set: NodeSetSpec) -> _Bin:
    return _Bin(node_set.name, node_set.gpus, node_set.cpus, node_set.memory_mib)


def _everything(
    sets: Mapping[str, NodeSetSpec], view: SlurmView, room: dict[str, int], gpus: _Gpus, bins: list[_Bin]
) -> Demand:
    more: dict[str, int] = {}
    for name, node_set in sets.items():
        count = max(0, min(room.get(name, 0), view.pending)) if node_set.partition.enabled else 0
        soon = gpus.soon(node_set)
        more[name] = count if soon is None else min(count, soon)
        gpus.take(node_set, more[name])
    return Demand(more, frozenset(bin_.name for bin_ in bins if bin_.name) if view.pending else frozenset())
