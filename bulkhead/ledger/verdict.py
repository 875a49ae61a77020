"""Writes the messages of the ledger: why a workload waits, and why a pod is taken back.

    requests 8 nvidia.com/gpu; 4 of your quota of 16 are free; 0 can be borrowed now; 4 that you lent are reclaimed within 3 min

Each message is complete, has numbers, and is the same for all pods of a workload. The message of a tenant's first waiting
workload says how much is free. Messages of the workloads behind it name only the quota, because the rest would change every
turn. Other tenants appear as numbers, never by name. Pure.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from bulkhead.api.ledger import line_name
from bulkhead.api.quantity import written
from bulkhead.ledger.account import Charge, Lack, TenantLine
from bulkhead.ledger.model import UNCOUNTED, Amounts, Cause, Flavor, Line, PodVerdict, Topology, Why
from bulkhead.ledger.order import Unready, Workload
from bulkhead.ledger.place import Shortfall

_MOST_NAMED: Final = 3  # resources, flavors or tenants in one sentence


def duration(seconds: float) -> str:
    """A number of seconds as people write it: `3 min`, `90 s`."""
    whole = round(seconds)
    for unit, size in (("h", 3600), ("min", 60)):
        if whole >= size and whole % size == 0:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def clock(at: float) -> str:
    """A time of day, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def asks(amounts: Amounts) -> str:
    """What a workload requests: its accelerators, or all its resources if it has none."""
    named = sorted((("/" not in name, name, number) for name, number in amounts.items() if number > 0))[:_MOST_NAMED]
    devices = [amount for amount in named if not amount[0]] or named
    return "requests " + (" and ".join(f"{written(name, number)} {name}" for _, name, number in devices) or "nothing")


def of_quota(lack: Lack, line: Line, number: int, entry: TenantLine) -> PodVerdict:
    """The quota is too small, or in use."""
    name, resource = line_name(*line), line[1]
    held = entry.used + entry.reserved + entry.own
    if lack == "never":
        text = f"requests {written(resource, number)} {name}; your quota is {written(resource, entry.nominal)}"
        borrowing = (
            f", or {written(resource, entry.ceiling)} with everything that you may borrow"
            if entry.ceiling > entry.nominal
            else ""
        )
        return PodVerdict(Why.QUOTA, f"{text}{borrowing}: it can never start")
    free = max(0, entry.nominal - held)
    quota = f"{written(resource, free)} of your quota of {written(resource, entry.nominal)} are free"
    text = f"requests {written(resource, number)} {name}; {quota}"
    if entry.ceiling > entry.nominal:
        text += f"; {written(resource, max(0, entry.room() - free))} can be borrowed now"
    return PodVerdict(Why.QUOTA if lack == "own" else Why.COHORT, text)


def comes_back(before: str, line: Line | None, missing: int, within: float, *, mine: bool) -> str:
    """Quota or room is being reclaimed for the workload."""
    if line is None or missing <= 0:
        return f"{before}; room for it becomes free within {duration(within)}"
    whose = "that you lent" if mine else "that others borrow"
    return f"{before}; {written(line[1], missing)} {whose} are reclaimed within {duration(within)}"


def ripens(before: str, at: float) -> str:
    """Quota can be reclaimed, but not yet."""
    return f"{before}; what others borrow can be reclaimed from {clock(at)} on"


def starts(before: str, at: float) -> str:
    """The time by which the workload starts is known."""
    return f"{before}; starts by {clock(at)} at the latest"


def of_room(short: Shortfall, topology: Topology | None, kind: str = "") -> PodVerdict:
    """Quota suffices, but no nodes have room."""
    asked = f"{written(short.resource, short.asks)} {short.resource}"
    pods = f"{short.pods} pods request {asked} each" if short.pods > 1 else f"requests {asked}"
    nodes = f"{short.nodes} {kind + ' ' if kind else ''}{'node matches' if short.nodes == 1 else 'nodes match'}"
    if not short.could_ever:
        domain = f" in one {topology.key}" if topology is not None and topology.required else ""
        return PodVerdict(Why.NEVER, f"{pods}; {nodes}, and it would not fit{domain} even if all nodes were empty")
    # Free cpu and memory would reveal what other tenants use on a node. Free devices are told, because a tenant plans by them.
    private = "/" not in short.resource
    # The numbers are those of the resource that fits worst. If the domain has enough of it, another resource is short.
    if topology is not None and topology.required and (private or short.fitting_domain >= short.pods):
        return PodVerdict(
            Why.TOPOLOGY, f"{pods}, all in one {topology.key}; none of {short.domains} such domains has room for it now"
        )
    if topology is not None and topology.required:
        best = f"the best of {short.domains} such domains has room for {short.fitting_domain} of {short.pods} pods"
        return PodVerdict(Why.TOPOLOGY, f"{pods}, all in one {topology.key}; {best}")
    if short.largest > UNCOUNTED // 2:
        return PodVerdict(Why.CAPACITY, f"{pods}; {nodes}; how many {short.resource} are free there is unknown")
    if private:
        room = "there is no room for all pods now" if short.pods > 1 else "none of them has room for it now"
        return PodVerdict(Why.CAPACITY, f"{pods}; {nodes}, but {room}")
    free, largest = written(short.resource, short.free), written(short.resource, short.largest)
    room = f"room for {short.fitting} of {short.pods} pods" if short.pods > 1 else f"at most {largest} on one node"
    return PodVerdict(Why.CAPACITY, f"{pods}; {nodes}; {free} {short.resource} are free there, {room}")


def of_unready(unready: Unready) -> PodVerdict:
    """Its pods cannot be admitted, however much is free."""
    if unready.beyond:
        text = f"its gang has {unready.there} pods and a size of {unready.size}: this pod starts after the others"
        return PodVerdict(Why.GANG, _with(text, unready.remark))
    if unready.there < unready.size:
        return PodVerdict(Why.GANG, _with(f"its gang has {unready.there} of {unready.size} pods", unready.remark))
    if unready.size:
        text = f"{unready.blocked} of the {unready.size} pods of its gang have scheduling gates of their own"
        return PodVerdict(Why.GATED, _with(text, unready.remark))
    return PodVerdict(Why.GATED, "it has scheduling gates of its own")


def behind(workload: Workload, line: Line | None = None, entry: TenantLine | None = None) -> PodVerdict:
    """Another workload waits for the same quota or room first. The text has only numbers that do not change every turn."""
    text = f"{asks(workload.asks)}; waits behind other workloads in its queue"
    if line is not None and entry is not None:
        text += f" for your quota of {written(line[1], entry.nominal)} {line_name(*line)}"
        if entry.ceiling > entry.nominal:
            text += f", or at most {written(line[1], entry.ceiling)} with what you may borrow"
    return PodVerdict(Why.QUEUE, text)


def never(workload: Workload) -> PodVerdict:
    """The nodes that are usable now could not run it even if they were empty."""
    return PodVerdict(Why.CAPACITY, f"{asks(workload.asks)}; it would not fit even if the nodes that are ready now were empty")


def without_quota(workload: Workload) -> PodVerdict:
    """The host does not say what its tenant may use."""
    return PodVerdict(Why.QUOTA, f"{asks(workload.asks)}; your quota is unknown now: it waits until the host states it again")


def flavors_apart(workload: Workload) -> PodVerdict:
    """Its tenant's quota has no flavor in common for all the resources that it requests."""
    return PodVerdict(Why.NEVER, f"{asks(workload.asks)}; your quota has no flavor that covers all of these resources")


def of_no_kind(workload: Workload, nodes: int, kinds: Sequence[Flavor], nominals: Mapping[Line, int]) -> PodVerdict:
    """Its node selector and affinity match only nodes of flavors for which its tenant has no quota."""
    match = f"{nodes} {'node matches' if nodes == 1 else 'nodes match'}"
    theirs = listed(list(dict.fromkeys(flavor.name for flavor in kinds)))
    yours = listed([f"{written(resource, number)} of {flavor}" for (flavor, resource), number in nominals.items()])
    of = f"of flavor {theirs}" if theirs else "of no flavor"
    return PodVerdict(Why.NEVER, f"{asks(workload.asks)}; {match}, {of}; your quota is for other flavors: {yours}")


def listed(words: Sequence[str]) -> str:
    """Words as people list them: `a, b and c`; if there are many, the first ones and the number of the others."""
    words = [*words[:_MOST_NAMED], f"{len(words) - _MOST_NAMED} more"] if len(words) > _MOST_NAMED else words
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def unplaced_rest(verdict: PodVerdict, workload: Workload) -> PodVerdict:
    """The verdict for pods that wait while others of their gang are admitted already."""
    pods = "pod" if len(workload.pods) == 1 else "pods"
    return PodVerdict(
        verdict.why, f"the remaining {len(workload.pods)} {pods} of its gang: {verdict.message}", verdict.starts_by
    )


def remarked(verdict: PodVerdict, workload: Workload) -> PodVerdict:
    """The verdict with the workload's remark, which its tenant should read in any case."""
    return PodVerdict(verdict.why, _with(verdict.message, workload.remark), verdict.starts_by)


def taken_back(cause: Cause) -> str:
    """Why a pod is evicted; its annotation gives the deadline separately."""
    return _CAUSES[cause]


def over_quota(at: float | None) -> PodVerdict:
    """What becomes of a pod that runs beyond its tenant's quota: it is evicted after `at`, or never if that is None."""
    if at is None:
        fate = "it runs until it ends, and its replacement starts only when there is quota for it"
    else:
        fate = f"it is evicted after {clock(at)}, unless there is quota for it by then"
    return PodVerdict(Why.LOWERED, f"the quota of its tenant was lowered: {fate}")


def not_bound(within: float, pods: int) -> str:
    """Why an admission is withdrawn."""
    if pods <= 1:
        return f"it was not bound within {duration(within)} of its admission, and will be admitted again"
    # A pod that ran returns only if a controller or a user in the plane recreates it.
    return (
        f"not all pods of its gang were bound within {duration(within)} of their admission: "
        "those that have started are evicted, and start with the others once they are recreated"
    )


_CAUSES: Final[Mapping[Cause, str]] = {
    Cause.BORROWED: "it ran on borrowed quota, which goes back to the tenant that lent it",
    Cause.FAIRNESS: "it ran on borrowed quota, which goes to a tenant that borrows less by weight",
    Cause.LOWERED: "the quota of its tenant was lowered",
    Cause.MOVED: "it makes room for a larger workload, because free devices are spread over too many nodes; "
    "room on another node is reserved for its replacement",
}


def lacking(charge: Charge, entries: Mapping[Line, TenantLine]) -> Line | None:
    """The first line that has no room for its part of a charge, accelerators first."""
    lines = sorted(charge, key=lambda line: ("/" not in line[1], line))
    return next((line for line in lines if charge[line] > entries[line].room()), None)


def _with(text: str, remark: str) -> str:
    return f"{text} ({remark})" if remark else text
