"""Writes the messages of the ledger: why a workload waits, and why a pod is taken back.

    asks 8 nvidia.com/gpu; of your quota of 16, 4 are free; 0 can be borrowed now; 4 that you lent come back within 3 min

Each message is complete, has numbers, and is the same for all pods of a workload. Only the first waiting workload of a tenant
reads what is free. Workloads behind it read their quota alone, since the rest would change at every turn. Other tenants appear
as numbers, never by name. Pure.
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
    """A bound, as people say it."""
    whole = round(seconds)
    for unit, size in (("h", 3600), ("min", 60)):
        if whole >= size and whole % size == 0:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def clock(at: float) -> str:
    """A time of day, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def asks(amounts: Amounts) -> str:
    """What a workload asks for: accelerators first."""
    named = sorted((("/" not in name, name, number) for name, number in amounts.items() if number > 0))[:_MOST_NAMED]
    devices = [amount for amount in named if not amount[0]] or named
    return "asks " + (" and ".join(f"{written(name, number)} {name}" for _, name, number in devices) or "nothing")


def of_quota(lack: Lack, line: Line, number: int, entry: TenantLine) -> PodVerdict:
    """Quota is too small, or held."""
    name, resource = line_name(*line), line[1]
    held = entry.used + entry.reserved + entry.own
    if lack == "never":
        text = f"asks {written(resource, number)} {name}; your quota is {written(resource, entry.nominal)}"
        beside = (
            f", and {written(resource, entry.ceiling)} with all that can be borrowed" if entry.ceiling > entry.nominal else ""
        )
        return PodVerdict(Why.QUOTA, f"{text}{beside}: it can never start")
    free = max(0, entry.nominal - held)
    quota = f"of your quota of {written(resource, entry.nominal)}, {written(resource, free)} are free"
    text = f"asks {written(resource, number)} {name}; {quota}"
    if entry.ceiling > entry.nominal:
        text += f"; {written(resource, max(0, entry.room() - free))} can be borrowed now"
    return PodVerdict(Why.QUOTA if lack == "own" else Why.COHORT, text)


def comes_back(before: str, line: Line | None, missing: int, within: float, *, mine: bool) -> str:
    """Something is being taken back for the workload."""
    if line is None or missing <= 0:
        return f"{before}; room for it comes back within {duration(within)}"
    whose = "that you lent" if mine else "that others borrow"
    return f"{before}; {written(line[1], missing)} {whose} come back within {duration(within)}"


def ripens(before: str, at: float) -> str:
    """Something can be taken back, but not yet."""
    return f"{before}; what others borrow can be taken back from {clock(at)} on"


def starts(before: str, at: float) -> str:
    """What is known of its start."""
    return f"{before}; starts by {clock(at)} at the latest"


def of_room(short: Shortfall, topology: Topology | None, kind: str = "") -> PodVerdict:
    """Quota suffices, and no nodes have room."""
    asked = f"{written(short.resource, short.asks)} {short.resource}"
    pods = f"{short.pods} pods ask {asked} each" if short.pods > 1 else f"asks {asked}"
    nodes = f"{short.nodes} {kind + ' ' if kind else ''}{'node' if short.nodes == 1 else 'nodes'}"
    if not short.could_ever:
        domain = f" in one {topology.key}" if topology is not None and topology.required else ""
        return PodVerdict(Why.NEVER, f"{pods}; {nodes} match, and even if all were empty there would be no room for it{domain}")
    # How much cpu and memory is free on a node tells what others use of it. Of devices a tenant has to know, to plan.
    private = "/" not in short.resource
    # Counted is what is asked for most: where there is enough of that, something else is short.
    if topology is not None and topology.required and (private or short.fitting_domain >= short.pods):
        return PodVerdict(
            Why.TOPOLOGY, f"{pods}, all in one {topology.key}; none of {short.domains} such domains has room for it now"
        )
    if topology is not None and topology.required:
        best = f"the best of {short.domains} such domains has room for {short.fitting_domain} of {short.pods}"
        return PodVerdict(Why.TOPOLOGY, f"{pods}, all in one {topology.key}; {best}")
    if short.largest > UNCOUNTED // 2:
        return PodVerdict(Why.CAPACITY, f"{pods}; {nodes} match, and nobody knows how many {short.resource} are free on them")
    if private:
        room = "they do not all find room there now" if short.pods > 1 else "none of them has room for it now"
        return PodVerdict(Why.CAPACITY, f"{pods}; {nodes} match, and {room}")
    free, largest = written(short.resource, short.free), written(short.resource, short.largest)
    room = f"there is room for {short.fitting}" if short.pods > 1 else f"the most that is free on one is {largest}"
    return PodVerdict(Why.CAPACITY, f"{pods}; {nodes} match, {free} {short.resource} are free on them, and {room}")


def of_unready(unready: Unready) -> PodVerdict:
    """It cannot be admitted whatever is free."""
    if unready.beyond:
        text = f"its gang says {unready.size} pods and has {unready.there}: this one starts after the others"
        return PodVerdict(Why.GANG, _with(text, unready.remark))
    if unready.there < unready.size:
        return PodVerdict(Why.GANG, _with(f"its gang has {unready.there} of {unready.size} pods", unready.remark))
    if unready.size:
        text = f"{unready.blocked} of the {unready.size} pods of its gang have scheduling gates of their own"
        return PodVerdict(Why.GATED, _with(text, unready.remark))
    return PodVerdict(Why.GATED, "it has scheduling gates of its own")


def behind(workload: Workload, line: Line | None = None, entry: TenantLine | None = None) -> PodVerdict:
    """Something before it waits for the same; where that is quota, it is named by what does not change at every turn."""
    text = f"{asks(workload.asks)}; waits behind other work of its queue"
    if line is not None and entry is not None:
        text += f" for room in your quota of {written(line[1], entry.nominal)} {line_name(*line)}"
        if entry.ceiling > entry.nominal:
            text += f", at most {written(line[1], entry.ceiling)} with what can be borrowed"
    return PodVerdict(Why.QUEUE, text)


def never(workload: Workload) -> PodVerdict:
    """No nodes would do that are usable now."""
    return PodVerdict(Why.CAPACITY, f"{asks(workload.asks)}; even if the nodes were empty there would be no room for it")


def flavors_apart(workload: Workload) -> PodVerdict:
    """No kind of node has all of what it asks for."""
    return PodVerdict(Why.NEVER, f"{asks(workload.asks)}; there is no flavor that your quota names for all of these")


def of_no_kind(workload: Workload, nodes: int, kinds: Sequence[Flavor], nominals: Mapping[Line, int]) -> PodVerdict:
    """Of the kinds of node to which its own needs leave it none is one of which its tenant has a quota."""
    match = f"{nodes} {'node matches' if nodes == 1 else 'nodes match'}"
    theirs = listed(list(dict.fromkeys(flavor.name for flavor in kinds)))
    yours = listed([f"{written(resource, number)} of {flavor}" for (flavor, resource), number in nominals.items()])
    of = f"of flavor {theirs}" if theirs else "of no flavor"
    return PodVerdict(Why.NEVER, f"{asks(workload.asks)}; {match}, {of}; your quota is for others: {yours}")


def listed(words: Sequence[str]) -> str:
    """Words as people list them: `a, b and c`; of many the first, and how many more there are."""
    words = [*words[:_MOST_NAMED], f"{len(words) - _MOST_NAMED} more"] if len(words) > _MOST_NAMED else words
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def unplaced_rest(verdict: PodVerdict, workload: Workload) -> PodVerdict:
    """The rest of a gang waits."""
    pods = "pod" if len(workload.pods) == 1 else "pods"
    return PodVerdict(verdict.why, f"the last {len(workload.pods)} {pods} of its gang: {verdict.message}", verdict.starts_by)


def remarked(verdict: PodVerdict, workload: Workload) -> PodVerdict:
    """With what the tenant should know anyway."""
    return PodVerdict(verdict.why, _with(verdict.message, workload.remark), verdict.starts_by)


def taken_back(cause: Cause) -> str:
    """Why a pod goes; by when, its note says beside."""
    return _CAUSES[cause]


def over_quota(at: float | None) -> PodVerdict:
    """What becomes of a pod that runs beyond its tenant's quota: it goes at that time, or never."""
    if at is None:
        fate = "it runs until it ends, and nothing starts in its stead before there is quota for it"
    else:
        fate = f"it is taken back after {clock(at)}, unless there is quota for it by then"
    return PodVerdict(Why.LOWERED, f"the quota of its tenant was lowered: {fate}")


def not_bound(within: float, pods: int) -> str:
    """Why what was admitted is taken back."""
    if pods <= 1:
        return f"it was not bound within {duration(within)} of its admission, and is admitted anew"
    # What ran comes back only if a controller or a user in the plane makes it again.
    return (
        f"its gang was not bound whole within {duration(within)} of its admission: "
        "what has started of it ends, to start with all the others once it is made again"
    )


_CAUSES: Final[Mapping[Cause, str]] = {
    Cause.BORROWED: "it ran on borrowed quota, which goes back to the tenant that lent it",
    Cause.FAIRNESS: "it ran on borrowed quota, which goes to a tenant that borrows less by weight",
    Cause.LOWERED: "the quota of its tenant was lowered",
    Cause.MOVED: "it makes room for larger work, since what is free lies in pieces; room on another node is kept for the pod "
    "that comes in its stead",
}


def lacking(charge: Charge, entries: Mapping[Line, TenantLine]) -> Line | None:
    """The first line that a charge does not fit into, accelerators first."""
    lines = sorted(charge, key=lambda line: ("/" not in line[1], line))
    return next((line for line in lines if charge[line] > entries[line].room()), None)


def _with(text: str, remark: str) -> str:
    return f"{text} ({remark})" if remark else text
