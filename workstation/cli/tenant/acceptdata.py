"""`bulkhead tenant accept-data`: continue with the data that a plane has, after data was lost or an older copy restored.

    Tenant reports DataLost, or ──> count what the syncer has on the host ──> confirm ──> delete ConfigMap plane-identity
    its syncer's breaker is open                                      └──> its syncer records the plane as it is, and continues

The command shows what the host would lose before it changes anything. It deletes only that ConfigMap itself.
"""

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bulkhead.api import conditions, labels, names, planeidentity
from bulkhead.api.conditions import ConditionType, Reason
from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.objects import Resource
from workstation.cli import connection, eventloop
from workstation.cli.arguments import Host, Wait, add_host, add_tenant, add_wait, host_of, wait_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress, plain
from workstation.cli.parsing import Actions
from workstation.cli.tenant import confirmation, patience
from workstation.cli.tenant.patience import LateError, Waits

# What the host has of a tenant because its plane has it; pods and volumes first, because users miss these.
_MIRRORED: Final[Mapping[str, Resource]] = {
    "pods": kinds.PODS,
    "volume claims": kinds.PERSISTENT_VOLUME_CLAIMS,
    "Services": kinds.SERVICES,
    "ConfigMaps": kinds.CONFIG_MAPS,
    "Secrets": kinds.SECRETS,
    "NetworkPolicies": kinds.NETWORK_POLICIES,
}
_NAMED: Final = 10
_MOST_SHOWN: Final = 500
_LOOK_EVERY: Final = 1.0
# Longer than a running syncer takes to compare.
_NOTICED_WITHIN: Final = 60.0


@dataclass(frozen=True, slots=True)
class AcceptRequest:
    """`tenant accept-data NAME`."""

    host: Host
    name: str
    # Whether to skip the confirmation.
    confirmed: bool
    wait: Wait


def add_accept_data(actions: Actions) -> None:
    """`tenant accept-data`."""
    parser = actions.add_parser(
        "accept-data",
        help="continue with the data that a tenant's plane has, after data was lost or an older copy restored",
        description="Show what the host would lose, and accept the plane as it is now. The tenant's syncer then continues: it "
        "deletes on the host what the plane no longer has, and those pods end. This cannot be undone.",
    )
    parser.shows(
        "bulkhead tenant accept-data red                      shows what would be lost, and asks",
        "bulkhead tenant accept-data red --yes --timeout 10m",
    )
    add_host(parser)
    add_tenant(parser, "name")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_wait(parser, "until its data is no longer reported as lost")
    parser.does(_request, accept_data)


def _request(options: argparse.Namespace) -> AcceptRequest:
    return AcceptRequest(host_of(options), options.name, options.yes, wait_of(options))


def accept_data(request: AcceptRequest) -> int:
    """`bulkhead tenant accept-data`."""
    try:
        return eventloop.run(_accept(request))
    except KeyboardInterrupt:
        next_step = f"bulkhead tenant describe {request.name}"
        raise CliError("interrupted", next_step=next_step, code=Exit.INTERRUPTED) from None


async def _accept(request: AcceptRequest) -> int:
    name = request.name
    async with connection.host_client(request.host) as client:
        tenant, record = await connection.get_tenant(client, name), await _record(client, name)
        lost = _lost(tenant) or plain(planeidentity.recorded(record).breaker_open, _MOST_SHOWN)
        if not lost:
            print(f"tenant {name}: its data is not reported as lost; nothing to accept")
            return Exit.DONE
        sys.stderr.write(f"tenant {name}: {lost}\n")
        sys.stderr.write(await _at_stake(client, name))
        if not request.confirmed:
            cost, warning = "continuing deletes what its plane no longer has", f"This cannot be undone for tenant {name}"
            confirmation.ask(name, cost, warning, "nothing changed")
        with Progress() as progress:
            if record is not None:
                await _until_noticed(client, name, progress)
                # Delete this version only: data that is lost later, of another plane, is not accepted by this.
                uid = str(record["metadata"]["uid"])
                await client.delete(kinds.CONFIG_MAPS, planeidentity.NAME, names.plane_namespace(name), uid=uid)
            if not request.wait.wanted:
                print(f"tenant {name}: the plane is accepted as it is; its syncer continues within a minute")
                return Exit.DONE
            await _until_accepted(client, name, record, request.wait.seconds, progress)
    print(f"tenant {name}: the plane is accepted as it is")
    return Exit.DONE


def _lost(tenant: Obj) -> str:
    """The Tenant's message about lost data; empty if it has none."""
    plane = conditions.condition_of(tenant, ConditionType.PLANE_READY)
    return str(plane.get("message") or Reason.DATA_LOST) if plane.get("reason") == Reason.DATA_LOST else ""


async def _record(client: Client, name: str) -> Obj | None:
    try:
        return await client.get(kinds.CONFIG_MAPS, planeidentity.NAME, names.plane_namespace(name))
    except NotFound:
        return None


def _lost_again(accepted: Obj, record: Obj | None) -> str:
    """Why the plane of a record is not trusted that is another one than the accepted one; empty if it is."""
    if record is None or record["metadata"]["uid"] == accepted["metadata"]["uid"]:
        return ""
    return planeidentity.recorded(record).quarantine


async def _at_stake(client: Client, name: str) -> str:
    """What the host has for the tenant because its plane had it."""
    space, lines = names.work_namespace(name), []
    for what, resource in _MIRRORED.items():
        # Names are enough: a large tenant's objects would fill the memory, and its Secrets are not this command's to read.
        found = (await client.list_metadata(resource, space, label_selector=labels.MIRRORED)).items
        if found:
            shown = [_virtual_name(thing) for thing in found[:_NAMED]]
            more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            lines.append(f"  {len(found):5} {what}: {', '.join(shown)}{more}\n")
    if not lines:
        return "The host has nothing of it.\n"
    return "The host has the following. It deletes what the plane no longer has:\n" + "".join(lines)


def _virtual_name(obj: Obj) -> str:
    noted = obj["metadata"].get("annotations") or {}
    name = str(noted.get(labels.VIRTUAL_NAME) or obj["metadata"]["name"])
    namespace = noted.get(labels.VIRTUAL_NAMESPACE)
    return f"{namespace}/{name}" if namespace else name


async def _until_noticed(client: Client, name: str, progress: Progress) -> None:
    """Wait until the syncer notices; otherwise it would act on what it remembers. A stopped syncer remembers nothing."""

    async def look() -> Waits | None:
        noted = planeidentity.recorded(await _record(client, name))
        return None if noted.quarantine or noted.breaker_open else Waits("its syncer has to check its plane")

    try:
        await patience.until(client, look, f"tenant {name}", seconds=_NOTICED_WITHIN, every=_LOOK_EVERY, progress=progress)
    except LateError as late:
        if late.silent:  # the syncer may run, and not be heard
            raise CliError(
                f"tenant {name}: nothing was changed: {late.last}",
                next_step=f"repeat it when the API answers: bulkhead tenant accept-data {name}",
                code=Exit.TIMEOUT,
            ) from late


async def _until_accepted(client: Client, name: str, accepted: Obj | None, seconds: float, progress: Progress) -> None:
    """Wait until the Tenant no longer reports its data as lost. `accepted` is the record that this command deleted."""

    async def look() -> Waits | None:
        lost = _lost(await connection.get_tenant(client, name))
        if lost and accepted is not None and (again := _lost_again(accepted, await _record(client, name))):
            raise CliError(
                f"tenant {name}: the plane was accepted as it was, and is reported as lost again: {plain(again, _MOST_SHOWN)}",
                next_step=f"look at it, and accept it as it is now: bulkhead tenant accept-data {name}",
            )
        return Waits("its data is still reported as lost; its syncer has to accept its plane") if lost else None

    try:
        await patience.until(client, look, f"tenant {name}", seconds=seconds, every=_LOOK_EVERY, progress=progress)
    except LateError as late:
        raise CliError(
            f"tenant {name}: not accepted after {seconds:g} s: {late.last}",
            next_step=f"its syncer goes on, if it runs; look: bulkhead tenant describe {name}",
            code=Exit.TIMEOUT,
        ) from late
