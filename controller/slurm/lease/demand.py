"""How many workers the waiting jobs need, by their sizes. Pure.

Jobs are laid, in the order in which Slurm would take them, first onto what the workers have free, then onto new workers, as far
as bounds and quota let there be any. A job is laid down whole or not at all: half of the nodes of an MPI job help nobody, and a
job that can never fit makes no worker start.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controller.slurm.answers.view import SlurmJob, SlurmView
from controller.slurm.lease.fleet import Worker
from controller.slurm.spec import NodeSetSpec

# Reasons to wait that more workers can end. Holds, dependencies, limits and licences are not among them.
HELPED: Final = frozenset(
    {"None", "Resources", "Priority", "PartitionConfig", "PartitionNodeLimit", "NodeDown", "ReqNodeNotAvail"}
)
STUCK: Final = timedelta(seconds=45)
_MOST_PIECES: Final = 4096


@dataclass(slots=True)
class _Bin:
    """What one worker has free; `new` ones exist on paper only."""

    node_set: str
    gpus: int
    cpus: int
    memory_mib: int
    untouched: bool = True
    name: str = ""
    # Slurm has had it for a while, with other jobs on it.
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


@dataclass(frozen=True, slots=True)
class Demand:
    """What the waiting jobs need of each NodeSet: new workers, and which of those that are there."""

    more: Mapping[str, int]
    needed: frozenset[str]


def demand(
    node_sets: Iterable[NodeSetSpec],
    view: SlurmView,
    workers: Iterable[Worker],
    *,
    room: Mapping[str, int],
    gpus_free: int | None,
    now: datetime,
    settle: timedelta,
) -> Demand:
    """Lay the waiting jobs down; `room` is how many workers each NodeSet may still get, `gpus_free` what the quota has left."""
    sets = {each.name: each for each in node_sets}
    room, bins = dict(room), [each for each in (_free(view, worker, sets) for worker in workers) if each is not None]
    if view.jobs is None:
        # More jobs than are worth reading: so many can use every worker that there may be.
        return _everything(sets, view, room, gpus_free, bins)
    for job in sorted(view.jobs, key=lambda each: (-each.priority, each.job_id)):
        if not _wants(job, now, settle):
            continue
        for node_set in _candidates(job, sets):
            laid = 0
            for _ in range(min(job.copies, _MOST_PIECES)):
                gpus_free, fits = _lay(list(_pieces(job, node_set, now)), node_set, bins, room, gpus_free)
                if not fits:
                    break
                laid += 1
            if laid == job.copies:
                break
    new = [each for each in bins if not each.name]
    return Demand(
        more={name: sum(each.node_set == name for each in new) for name in sets},
        needed=frozenset(each.name for each in bins if each.name and not each.untouched),
    )


def _lay(
    pieces: list["_Piece"], node_set: NodeSetSpec, bins: list[_Bin], room: dict[str, int], gpus_free: int | None
) -> tuple[int | None, bool]:
    """Lay one copy of a job down on distinct workers; nothing is changed when it does not fit."""
    if not pieces or len(pieces) > _MOST_PIECES:
        return gpus_free, False
    chosen: list[_Bin] = []
    mine = [each for each in bins if each.node_set == node_set.name]
    for piece in pieces:
        place = next((each for each in mine if each.holds(piece) and not any(each is other for other in chosen)), None)
        if place is None:
            break
        chosen.append(place)
    missing = len(pieces) - len(chosen)
    most = room.get(node_set.name, 0)
    if gpus_free is not None and node_set.gpus:
        most = min(most, gpus_free // node_set.gpus)
    fresh = _new(node_set)
    if missing > most or (missing and not all(fresh.holds(piece) for piece in pieces[len(chosen) :])):
        return gpus_free, False
    made = [_new(node_set) for _ in range(missing)]
    bins += made
    room[node_set.name] = room.get(node_set.name, 0) - missing
    for place, piece in zip([*chosen, *made], pieces, strict=True):
        place.take(piece)
    return (None if gpus_free is None else gpus_free - missing * node_set.gpus), True


def _pieces(job: SlurmJob, node_set: NodeSetSpec, now: datetime) -> Iterator[_Piece]:
    """A job in equal parts, on as few nodes as it asks for and can do with."""
    count = job.node_count
    for wanted, each in ((job.gpus, node_set.gpus), (job.cpus, node_set.cpus), (job.memory_mib, node_set.memory_mib)):
        if wanted and not each:
            return
        count = max(count, _over(wanted, each) if each else 1)
    # Slurm does not show everything that a job asks for, such as a node to itself. One that was not started beside others for
    # so long will not be started there.
    stuck = job.submitted is not None and now - job.submitted >= STUCK
    piece = _Piece(_over(job.gpus, count), _over(job.cpus, count), _over(job.memory_mib, count), job.exclusive, stuck)
    for _ in range(min(count, _MOST_PIECES + 1)):
        yield piece


def _over(wanted: int, each: int) -> int:
    return -(-wanted // each)


def _wants(job: SlurmJob, now: datetime, settle: timedelta) -> bool:
    reason = job.reason.partition(",")[0].strip()
    waits = job.pending and not job.held and (reason in HELPED or not reason)
    return waits and (job.submitted is None or now - job.submitted >= settle)


def _candidates(job: SlurmJob, sets: Mapping[str, NodeSetSpec]) -> Iterator[NodeSetSpec]:
    for name in job.partitions:
        node_set = sets.get(name)
        if node_set is not None and node_set.partition.enabled and _has(node_set, job.features):
            yield node_set


def _has(node_set: NodeSetSpec, features: str) -> bool:
    """Whether the workers have what a job asks for; what is more than a plain conjunction is left to Slurm."""
    if not features or any(character in features for character in "|[]()*"):
        return True
    return {word.strip() for word in features.replace(",", "&").split("&") if word.strip()} <= {
        node_set.name,
        *node_set.features,
    }


def _free(view: SlurmView, worker: Worker, sets: Mapping[str, NodeSetSpec]) -> _Bin | None:
    """What a worker has for new jobs: all of it while it starts, nothing while it drains or does not answer."""
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
    return _Bin(
        node_set.name,
        max(0, node_set.gpus - node.gpus_used),
        max(0, node_set.cpus - node.cpus_used),
        max(0, node_set.memory_mib - node.memory_used_mib),
        untouched=not node.busy,
        name=worker.name,
        shared=node.busy,
    )


def _new(node_set: NodeSetSpec) -> _Bin:
    return _Bin(node_set.name, node_set.gpus, node_set.cpus, node_set.memory_mib)


def _everything(
    sets: Mapping[str, NodeSetSpec], view: SlurmView, room: dict[str, int], gpus_free: int | None, bins: list[_Bin]
) -> Demand:
    more: dict[str, int] = {}
    for name, node_set in sets.items():
        most = max(0, min(room.get(name, 0), view.pending)) if node_set.partition.enabled else 0
        if gpus_free is not None and node_set.gpus:
            most = min(most, gpus_free // node_set.gpus)
            gpus_free -= most * node_set.gpus
        more[name] = most
    return Demand(more, frozenset(each.name for each in bins if each.name) if view.pending else frozenset())
