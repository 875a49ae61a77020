"""`bulkhead tenant recover`: continue a plane of three from one member, after its quorum was lost for good.

    Tenant reports QuorumLost ──> what each member has, what is lost ──> confirm ──> `recover` in ConfigMap plane-members
                                                                             └──> the controller does it, shown until it serves

The command changes that one key, and may be interrupted: the controller goes on, and the same command shows how far it is.
"""

import argparse
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bulkhead.api import conditions, names, planeidentity, planemembers
from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, NotFound
from workstation.cli import connection, eventloop
from workstation.cli.arguments import Host, Wait, add_host, add_tenant, add_wait, host_of, wait_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress, age, plain, table
from workstation.cli.parsing import Actions
from workstation.cli.tenant import confirmation, patience
from workstation.cli.tenant.patience import LateError, Waits

_MEMBERS: Final = ("plane-0", "plane-1", "plane-2")
_MEMBER: Final = re.compile(r"(?:plane-)?([0-2])")
_LOOK_EVERY: Final = 1.0


@dataclass(frozen=True, slots=True)
class RecoverRequest:
    """`tenant recover NAME`."""

    host: Host
    name: str
    member: str  # the name of its pod; empty to see what there is
    confirmed: bool
    dry_run: bool
    wait: Wait


@dataclass(frozen=True, slots=True)
class Stake:
    """What is known of a plane without a quorum."""

    since: str = ""
    heard: Mapping[str, int] = field(default_factory=dict)  # the revision of each member that answers
    recorded: int = 0  # the highest revision that the tenant's syncer has noted on the host
    under_way: str = ""  # the member from which it is being recovered already
    version: str = ""  # of the ConfigMap

    @property
    def newest(self) -> int:
        """The highest revision that is known."""
        return max((*self.heard.values(), self.recorded), default=0)


def add_recover(actions: Actions) -> None:
    """`tenant recover`."""
    parser = actions.add_parser(
        "recover",
        help="continue a plane of three from one member, after its quorum was lost",
        description="Show what each member of a plane without a quorum has and what would be lost, and continue with the data "
        "of one. The volumes of the others are deleted, and new members are added one after another. Without --from-member it "
        "only shows what there is.",
    )
    parser.shows(
        "bulkhead tenant recover red                          what each member has; changes nothing",
        "bulkhead tenant recover red --from-member 1",
    )
    add_host(parser)
    add_tenant(parser, "name")
    parser.add_argument("--from-member", metavar="N", type=_member, help="the member to continue with: 0, 1 or 2")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be lost")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_wait(parser, "until the plane serves again")
    parser.does(_request, recover)


def _member(text: str) -> str:
    found = _MEMBER.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"must be 0, 1 or 2, not {text!r}")
    return _MEMBERS[int(found[1])]


def _request(options: argparse.Namespace) -> RecoverRequest:
    return RecoverRequest(
        host_of(options), options.name, options.from_member or "", options.yes, options.dry_run, wait_of(options)
    )


def recover(request: RecoverRequest) -> int:
    """`bulkhead tenant recover`."""
    try:
        return eventloop.run(_recover(request))
    except KeyboardInterrupt:
        next_step = f"if it was confirmed, the controller goes on: bulkhead tenant recover {request.name}"
        raise CliError("interrupted", next_step=next_step, code=Exit.INTERRUPTED) from None


async def _recover(request: RecoverRequest) -> int:
    name = request.name
    async with connection.host_client(request.host) as client:
        stake = await _observe(client, name)
        if stake.under_way:
            if request.member not in ("", stake.under_way):
                raise CliError(
                    f"tenant {name} is being recovered from {stake.under_way} already, not from {request.member}",
                    next_step=f"wait for it: bulkhead tenant recover {name}",
                )
            return await _follow(client, request, stake.under_way)
        if not stake.since:
            print(f"tenant {name}: its quorum is not reported as lost; nothing to recover")
            return Exit.DONE
        _show(request, stake)
        if not request.member:
            return Exit.DONE
        if request.member not in stake.heard:
            raise CliError(
                f"tenant {name}: {request.member} does not answer, so it cannot be continued with",
                next_step="choose one that answers, or start its pod first",
            )
        sys.stderr.write(_cost(request, stake))
        if request.dry_run:
            return Exit.DONE
        if not request.confirmed:
            cost, warning = "continuing from one member loses data", f"This cannot be undone for tenant {name}"
            confirmation.ask(name, cost, warning, "nothing changed")
        await _ask(client, name, stake, request.member)
        return await _follow(client, request, request.member)


async def _observe(client: Client, name: str) -> Stake:
    tenant = await connection.get_tenant(client, name)
    space = names.plane_namespace(name)
    record = await _find(client, planemembers.NAME, space)
    if record is None:
        raise CliError(
            f"tenant {name} has a plane of one member, and no other to continue with",
            next_step=f"see what is wrong with it: bulkhead tenant why {name}",
        )
    plane = conditions.condition_of(tenant, ConditionType.PLANE_READY)
    heard = planemembers.heard(record)
    # A plane whose data was in doubt before says so first.
    lost = plane.get("reason") == Reason.QUORUM_LOST or (heard and plane.get("status") != "True")
    identity = planeidentity.recorded(await _find(client, planeidentity.NAME, space))
    return Stake(
        since=str(plane.get("lastTransitionTime") or "unknown") if lost else "",
        heard=heard,
        recorded=identity.revision,
        under_way=planemembers.recovers(record),
        version=str(record["metadata"]["resourceVersion"]),
    )


async def _find(client: Client, name: str, space: str) -> Obj | None:
    try:
        return await client.get(kinds.CONFIG_MAPS, name, space)
    except NotFound:
        return None


def _show(request: RecoverRequest, stake: Stake) -> None:
    print(f"tenant {request.name}: without a quorum since {stake.since} ({age(stake.since)})")
    rows = [
        (member, "yes", revision, stake.newest - revision) if revision is not None else (member, "no", "", "")
        for member, revision in ((member, stake.heard.get(member)) for member in _MEMBERS)
    ]
    table(("MEMBER", "ANSWERS", "REVISION", "BEHIND"), rows)
    if stake.recorded:
        print(f"The tenant's syncer has seen revision {stake.recorded} of it.")


def _cost(request: RecoverRequest, stake: Stake) -> str:
    """What is lost if the plane continues from a member."""
    member, others = request.member, [member for member in _MEMBERS if member != request.member]
    behind = stake.newest - stake.heard[member]
    lines = [f"Continuing from {member}:"]
    if behind:
        better = [other for other in others if stake.heard.get(other, 0) > stake.heard[member]]
        hint = f"; {better[0]} has more: --from-member {better[0][-1]}" if better else ""
        lines.append(f"  loses at least {behind} changes, up to revision {stake.newest}{hint}")
    else:
        lines.append("  loses nothing that is known")
    silent = [other for other in others if other not in stake.heard]
    if silent:
        lines.append(f"  loses what {' and '.join(silent)} alone have; they do not answer, so nothing says how much that is")
        lines.append("  if a node of theirs may still run, stop it first: cut off from here, they may still serve")
    lines.append(f"  deletes the volumes of {' and '.join(others)}")
    lines.append(f"  stops deletions on the host until the data is accepted: bulkhead tenant accept-data {request.name}")
    return "\n".join(lines) + "\n"


async def _ask(client: Client, name: str, stake: Stake, member: str) -> None:
    body = {"metadata": {"resourceVersion": stake.version}, "data": {planemembers.RECOVER: member}}
    try:
        await client.patch(kinds.CONFIG_MAPS, planemembers.NAME, body, names.plane_namespace(name))
    except Conflict as error:
        raise CliError(
            f"tenant {name}: its members have changed meanwhile; nothing was asked for",
            next_step="look again with the same command",
        ) from error


async def _follow(client: Client, request: RecoverRequest, member: str) -> int:
    name = request.name
    if not request.wait.wanted or request.dry_run:
        print(f"tenant {name} is being recovered from {member}")
        return Exit.DONE
    with Progress() as progress:
        plane = await _until_recovered(client, name, request.wait.seconds, progress)
    print(f"tenant {name}: the plane serves from {member}, and the other members are added one after another")
    if plane.get("reason") == Reason.DATA_LOST:
        print(f"Check what the host would lose, and continue: bulkhead tenant accept-data {name}")
    return Exit.DONE


async def _until_recovered(client: Client, name: str, seconds: float, progress: Progress) -> Mapping[str, Any]:
    """The condition PlaneReady of a Tenant that has a quorum again."""

    async def look() -> Mapping[str, Any] | Waits:
        tenant = await connection.get_tenant(client, name)
        record = await _find(client, planemembers.NAME, names.plane_namespace(name))
        plane = conditions.condition_of(tenant, ConditionType.PLANE_READY)
        if not planemembers.recovers(record) and plane.get("reason") != Reason.QUORUM_LOST:
            return plane
        degraded = conditions.condition_of(tenant, ConditionType.DEGRADED)
        told = degraded if degraded.get("reason") == Reason.RECOVERING else plane
        return Waits(plain(told.get("message")))

    try:
        return await patience.until(client, look, f"tenant {name}", seconds=seconds, every=_LOOK_EVERY, progress=progress)
    except LateError as late:
        raise CliError(
            f"tenant {name}: not recovered after {seconds:g} s: {late.last}",
            next_step=f"the controller goes on: bulkhead tenant recover {name}",
            code=Exit.TIMEOUT,
        ) from late
