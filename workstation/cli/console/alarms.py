"""What is wrong on a host, the worst first, each with the command to type next. Pure.

controllers, tenants ──> first_cause ──> one alarm for each tenant that is not ready
nodes that take no pods, and what is on them ──> one alarm for each that broke down, one for all that are cordoned
cohorts ──> one alarm for each line that is all in use, or too much, while workloads wait for it
certificates that end within 20 days ──> one alarm for each tenant, or one for all if there are many
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from bulkhead.api.conditions import ConditionType, Reason, condition_of
from bulkhead.api.ledger import line_name
from bulkhead.api.names import SYSTEM_NAMESPACE
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from bulkhead.ledger.model import Snapshot
from workstation.cli.quotas.summary import Members, is_device
from workstation.cli.quotas.topmap import where
from workstation.cli.tenant.cause import Cause, controller_log, first_cause
from workstation.console.picture import MAX_TEXT_CHARS, ORDER, Alarm, Level

# A tenant in one of these is on its way or is meant to stand still: nothing is broken.
_ON_THE_WAY: Final = frozenset(
    {
        Reason.PROVISIONING,
        Reason.WAITING_FOR_PLANE,
        Reason.WAITING_FOR_SYNCER,
        Reason.WAITING_FOR_SLURM,
        Reason.WAITING_FOR_NODES,
        Reason.WAITING_FOR_ADDRESS,
        Reason.TERMINATING,
        Reason.RESTORING,
        Reason.RECOVERING,
        Reason.GROWING,
        Reason.PAUSED,
        "NotReconciled",
        "ControllerUnknown",
    }
)
_MAX_NAMED: Final = 4
# All are renewed 30 days before they end: what is left for less than this is not being renewed.
_SOON_SECONDS: Final = 20 * 86_400.0
_URGENT_SECONDS: Final = 7 * 86_400.0
_CORDONED: Final = "cordoned"


@dataclass(frozen=True, slots=True)
class Closed:
    """Why a node takes no pods."""

    why: str
    since: str
    # Whether a person closed it; otherwise it broke down.
    cordoned: bool


@dataclass(frozen=True, slots=True)
class Ending:
    """The certificate of a plane that ends first."""

    certificate: str
    # In seconds since 1970.
    at: float


def closed_of(node: Obj) -> Closed | None:
    """Why a node takes no pods; None if it takes them. A node that broke down and is cordoned broke down."""
    ready = condition_of(node, "Ready")
    if ready.get("status", "True") != "True":
        what = f"{text(ready.get('reason')) or 'NotReady'}: {text(ready.get('message')) or 'no message'}"
        return Closed(what[:MAX_TEXT_CHARS].rstrip(". "), text(ready.get("lastTransitionTime")), cordoned=False)
    if mapping(node.get("spec")).get("unschedulable") is True:
        return Closed(_CORDONED, "", cordoned=True)
    return None


def causes(tenants: Mapping[str, Obj], controllers: Sequence[Obj] | None) -> dict[str, Cause]:
    """The first cause of each tenant's state; `controllers` are None if they could not be read."""
    return {name: first_cause(tenant, controllers, ()) for name, tenant in tenants.items()}


def level_of(tenant: Obj, cause: Cause) -> Level:
    """How bad a tenant's state is."""
    if cause.healthy:
        return Level.OK
    ready = condition_of(tenant, ConditionType.READY)
    if cause.reason in _ON_THE_WAY or (ready.get("status") == "True" and cause.reason != "ControllerDown"):
        return Level.WARN
    return Level.BAD


def alarms(
    snapshot: Snapshot,
    tenants: Mapping[str, Obj],
    found: Mapping[str, Cause],
    closed: Mapping[str, Closed],
    cohorts: Iterable[Members],
    *,
    short: Collection[str],
    ends: Mapping[str, Ending],
    now: float,
    namespace: str = SYSTEM_NAMESPACE,
) -> tuple[Alarm, ...]:
    """All of them, the worst first. `short` are the cohorts whose workloads wait for what others of the cohort have.

    `namespace` is the controller's.
    """
    listed = [
        *_controller(found),
        *_tenants(tenants, found),
        *_nodes(snapshot, closed),
        *_exhausted(cohorts, short),
        *certificates({name: end for name, end in ends.items() if name in tenants}, now, namespace),
    ]
    return tuple(sorted(listed, key=lambda alarm: ORDER[alarm.level]))


def _controller(found: Mapping[str, Cause]) -> list[Alarm]:
    down = next((cause for cause in found.values() if cause.reason == "ControllerDown"), None)
    if down is None:
        return []
    return [Alarm(Level.BAD, "controller", "of the host", down.reason, down.what, down.since or "", down.next_step)]


def _tenants(tenants: Mapping[str, Obj], found: Mapping[str, Cause]) -> list[Alarm]:
    return [
        Alarm(
            level_of(tenants[name], cause),
            "tenant",
            name,
            cause.reason,
            cause.what[:MAX_TEXT_CHARS],
            cause.since or "",
            f"bulkhead tenant why {name}" if cause.next_step.startswith("see docs/") else cause.next_step,
        )
        for name, cause in sorted(found.items())
        if not cause.healthy and cause.reason != "ControllerDown"
    ]


def certificates(ends: Mapping[str, Ending], now: float, namespace: str = SYSTEM_NAMESPACE) -> list[Alarm]:
    """The planes with a certificate that ends soon, the first one first."""
    soon = sorted((end.at, name, end.certificate) for name, end in ends.items() if end.at - now < _SOON_SECONDS)
    if not soon:
        return []

    def level(at: float) -> Level:
        return Level.BAD if at - now < _URGENT_SECONDS else Level.WARN

    if len(soon) > _MAX_NAMED:
        # So many at once have one cause, and it is not the tenants'.
        at, first, _ = soon[0]
        names = ", ".join(name for _, name, _ in soon[:_MAX_NAMED]) + f" and {len(soon) - _MAX_NAMED} more"
        what = f"certificates of {len(soon)} planes are not being renewed; the first ends {_day(at)} ({first})"
        log = f"{controller_log(namespace)} --tail=-1 | grep -i -e certificate -e clock | tail -20"
        return [Alarm(level(at), "tenants", names, "CertificatesEnd", what, "", log)]
    return [
        Alarm(
            level(at),
            "tenant",
            name,
            "CertificateEnds",
            f"{certificate[:MAX_TEXT_CHARS] or 'a certificate'} {'has ended' if at <= now else 'ends'} {_day(at)}"
            f"{'' if at <= now else f', in {int((at - now) // 86_400)} days'}, and is not being renewed",
            "",
            f"bulkhead tenant why {name}",
        )
        for at, name, certificate in soon
    ]


def _day(at: float) -> str:
    try:
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d}"
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"


def _nodes(snapshot: Snapshot, closed: Mapping[str, Closed]) -> list[Alarm]:
    held: dict[str, Counter[str]] = {}
    for pod in snapshot.pods:
        if where(pod) in closed:
            devices = sum(amount for name, amount in pod.asks.items() if "/" in name)
            held.setdefault(where(pod), Counter())[pod.tenant or "the host"] += devices
    rooms = {
        node.name: {name: amount for name, amount in node.allocatable.items() if _is_shown(name)} for node in snapshot.nodes
    }
    found = []
    for name, why in sorted(closed.items()):
        if why.cordoned:
            continue
        users = [f"{tenant} ({number})" for tenant, number in held.get(name, Counter()).most_common(_MAX_NAMED) if number]
        lost = ", ".join(f"{amount} {resource}" for resource, amount in rooms.get(name, {}).items() if amount)
        what = f"{why.why}; it has {lost or 'no devices'}, in use by {', '.join(users) or 'no tenant'}"
        level = Level.BAD if lost else Level.WARN
        found.append(Alarm(level, "node", name, "NotReady", what, why.since, f"kubectl describe node {name}"))
    cordoned = sorted(name for name, why in closed.items() if why.cordoned)
    if cordoned:
        names = ", ".join(cordoned[:_MAX_NAMED]) + (
            f" and {len(cordoned) - _MAX_NAMED} more" if len(cordoned) > _MAX_NAMED else ""
        )
        text_ = f"{len(cordoned)} nodes accept no new pods; what runs there goes on"
        found.append(Alarm(Level.WARN, "nodes", names, "Cordoned", text_, "", f"kubectl uncordon {cordoned[0]}"))
    return found


def _is_shown(resource: str) -> bool:
    return "/" in resource and "kubernetes.io/" not in resource


def _exhausted(cohorts: Iterable[Members], short: Collection[str]) -> list[Alarm]:
    found = []
    for members in cohorts:
        for line in members.lines():
            total = members.total(line)
            if not members.name or not is_device(line) or not total.waiting:
                continue
            if total.standing.used < total.standing.nominal and members.name not in short:
                continue
            borrowers = sorted(
                (row for row in members.rows if row.line == line and row.standing.borrowed),
                key=lambda row: -row.standing.borrowed,
            )
            lent = ", ".join(f"{row.tenant} borrows {row.standing.borrowed}" for row in borrowers[:_MAX_NAMED])
            full = total.standing.used >= total.standing.nominal
            left = "" if full else "; the others are kept for workloads ahead in the queue, or are too few together"
            used = f"{total.standing.used} of {total.standing.nominal} {line_name(*line)} are in use"
            what = f"{used}, and pods that request {total.waiting} wait{left}; {lent or 'no tenant borrows'}"
            reason, step = "Exhausted" if full else "TooFewLeft", f"bulkhead cohort {members.name}"
            found.append(Alarm(Level.WARN, "cohort", members.name, reason, what, "", step))
    return found
