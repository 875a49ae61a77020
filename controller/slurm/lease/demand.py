"""Computes how many workers the waiting jobs need, by their sizes. Pure.

Jobs are placed in Slurm's order: first onto free resources of workers, then onto new workers, as far as bounds and quota allow.
A job is placed as a whole or not at all: half of the nodes of an MPI job are useless, and a job that can never fit starts no
worker.

If the ledger admits workers, jobs request the quota that it would give now. Beyond that, up to the ceiling, only one job at a
time requests workers. The ledger must know of that job to reclaim quota for it, and further jobs would only use up the ceiling
that the tenant's other pods need.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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
    room, bins = dict(room), [bin_ for bin_ in (_free(view, worker, sets) for worker in workers) if bin_ is not None]
    gpus = _Gpus(free, any_waits=any(not worker.host_node for worker in workers))
    if view.jobs is None:
        # There are too many jobs to read: that many can use every possible worker.
        return _everything(sets, view, room, gpus, bins)
    named: set[str] = set()
    for job in sorted(view.jobs, key=lambda job: (-job.priority, job.job_id)):
        if not _wants(job, now, settle):
            continue
        # Without a worker that it names a job could never start.
        named |= job.required
        for node_set in _candidates(job, sets):
            laid = 0
            for _ in range(min(job.copies, _MOST_PIECES)):
                if not _lay(job, list(_pieces(job, node_set, now)), node_set, bins, room, gpus):
                    break
                laid += 1
            if laid == job.copies:
                break
    new = [bin_ for bin_ in bins if not bin_.name]
    return Demand(
        more={name: sum(bin_.node_set == name for bin_ in new) for name in sets},
        needed=frozenset(bin_.name for bin_ in bins if bin_.name and (bin_.name in named or not bin_.untouched)),
    )


def _lay(
    job: SlurmJob, pieces: list[_Piece], node_set: NodeSetSpec, bins: list[_Bin], room: dict[str, int], gpus: _Gpus
) -> bool:
    """Place one copy of a job on distinct workers; nothing is changed if it does not fit.

    A job that names workers waits for those: no other worker can take their place.
    """
    if not pieces or len(pieces) > _MOST_PIECES:
        return False
    chosen: list[_Bin] = []
    mine = [bin_ for bin_ in bins if bin_.node_set == node_set.name and bin_.name not in job.excluded]
    named = [bin_ for bin_ in mine if bin_.name in job.required]
    for piece in pieces:
        pool = named if len(chosen) < len(named) else mine
        place = next((bin_ for bin_ in pool if bin_.holds(piece) and not any(bin_ is other for other in chosen)), None)
        if place is None:
            break
        chosen.append(place)
    if len(chosen) < len(job.required):
        return False
    missing = len(pieces) - len(chosen)
    fresh = _new(node_set)
    if missing and not all(fresh.holds(piece) for piece in pieces[len(chosen) :]):
        return False
    if missing > room.get(node_set.name, 0) or (missing and not gpus.gives(node_set, missing)):
        return False
    made = [_new(node_set) for _ in range(missing)]
    bins += made
    room[node_set.name] = room.get(node_set.name, 0) - missing
    gpus.take(node_set, missing)
    for place, piece in zip([*chosen, *made], pieces, strict=True):
        place.take(piece)
    return True


def _pieces(job: SlurmJob, node_set: NodeSetSpec, now: datetime) -> Iterator[_Piece]:
    """A job in equal parts, on as few nodes as it requests and fits on."""
    count = job.node_count
    for wanted, there in ((job.gpus, node_set.gpus), (job.cpus, node_set.cpus), (job.memory_mib, node_set.memory_mib)):
        if wanted and not there:
            return
        count = max(count, _over(wanted, there) if there else 1)
    # Slurm does not show all requests of a job, such as exclusive use of a node. If Slurm has not started a job next to others
    # for this long, it will not start it there.
    stuck = job.submitted is not None and now - job.submitted >= STUCK
    piece = _Piece(_over(job.gpus, count), _over(job.cpus, count), _over(job.memory_mib, count), job.exclusive, stuck)
    for _ in range(min(count, _MOST_PIECES + 1)):
        yield piece


def _over(wanted: int, size: int) -> int:
    return -(-wanted // size)


def is_helped(job: SlurmJob) -> bool:
    """Whether more workers could let a waiting job start."""
    reason = job.reason.partition(",")[0].strip()
    return job.pending and not job.held and (reason in HELPED or not reason)


def _wants(job: SlurmJob, now: datetime, settle: timedelta) -> bool:
    return is_helped(job) and (job.submitted is None or now - job.submitted >= settle)


def _candidates(job: SlurmJob, sets: Mapping[str, NodeSetSpec]) -> Iterator[NodeSetSpec]:
    for name in job.partitions:
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
