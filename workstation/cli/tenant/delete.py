"""`bulkhead tenant delete`: a tenant and everything in it, once the user has typed its name."""

import argparse
import asyncio
import time
from dataclasses import dataclass
from typing import Final

from bulkhead.api.labels import CONFIRM
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import ApiError, Forbidden, NotFound
from workstation.cli import connection, eventloop
from workstation.cli.arguments import Host, Wait, add_host, add_tenant, add_wait, host_of, wait_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress
from workstation.cli.parsing import Actions
from workstation.cli.tenant import confirmation, waiting

# A policy of deletions reads the classes. Until the API server has found their kind, it refuses what the policy is about.
_UNLEARNED: Final = "failed to find resource referenced by paramKind"
_LEARNS_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """`tenant delete NAME`."""

    host: Host
    name: str
    # Whether to skip the confirmation.
    confirmed: bool
    wait: Wait


def add_delete(actions: Actions) -> None:
    """`tenant delete`."""
    parser = actions.add_parser(
        "delete",
        help="delete a tenant and everything in it",
        description="Delete a tenant with its plane, its data and its pods. This cannot be undone, unless its class keeps the "
        "planes of deleted tenants for a while.",
    )
    parser.shows(
        "bulkhead tenant delete red                           asks for its name",
        "bulkhead tenant delete red --yes --no-wait",
    )
    add_host(parser)
    add_tenant(parser, "name")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_wait(parser, "until it is gone")
    parser.does(_request, delete_tenant)


def _request(options: argparse.Namespace) -> DeleteRequest:
    return DeleteRequest(host_of(options), options.name, options.yes, wait_of(options))


def delete_tenant(request: DeleteRequest) -> int:
    """`bulkhead tenant delete`."""
    try:
        return eventloop.run(_delete(request))
    except KeyboardInterrupt:
        raise CliError(
            "interrupted; deletion may continue in the background",
            next_step=f"bulkhead tenant describe {request.name}",
            code=Exit.INTERRUPTED,
        ) from None


async def _delete(request: DeleteRequest) -> int:
    name = request.name
    async with connection.host_client(request.host) as client:
        tenant = await connection.get_tenant(client, name)
        kept = kept_for(tenant)
        if not request.confirmed:
            cost, warning = _cost(name, kept)
            confirmation.ask(name, cost, warning, "not deleted")
        uid = str(tenant["metadata"]["uid"])
        if await _asks(client, tenant):
            # Typing the name, or --yes, is the confirmation that its class asks for.
            await client.patch(kinds.TENANTS, name, {"metadata": {"uid": uid, "annotations": {CONFIRM: uid}}})
        await _let_go(client, name, uid)
        if not request.wait.wanted:
            print(f"tenant {name} is being deleted{_left(kept)}")
            return Exit.DONE
        with Progress() as progress:
            await waiting.until_gone(client, name, uid, seconds=request.wait.seconds, progress=progress)
    print(f"tenant {name} deleted{_left(kept)}")
    return Exit.DONE


def kept_for(tenant: Obj) -> str:
    """For how long the plane outlives its Tenant, such as 72h; empty if it does not, or if there is none."""
    status = mapping(tenant.get("status"))
    rule = mapping(status.get("deletion"))
    asks = "Retain" in {rule.get("policy"), mapping(tenant.get("spec")).get("deletionPolicy")}
    return text(rule.get("retainFor")) or "some days" if asks and status.get("planeIdentity") else ""


def _cost(name: str, kept: str) -> tuple[str, str]:
    """What a deletion costs: for an error, and as a question."""
    if kept:
        return "deleting it ends its pods", f"This deletes tenant {name} with its pods; its plane is kept for {kept}"
    return "deleting it destroys all its data", f"This deletes tenant {name} with its API server, its data and its pods"


def _left(kept: str) -> str:
    return f"; its plane is kept for {kept}: bulkhead tenant retained" if kept else ""


async def _let_go(client: Client, name: str, uid: str) -> None:
    """Delete the Tenant. For some seconds after an installation the host refuses every deletion of one."""
    deadline = time.monotonic() + _LEARNS_SECONDS
    with Progress() as progress:
        while True:
            try:
                await client.delete(kinds.TENANTS, name, uid=uid)
            except ApiError as error:
                if _UNLEARNED not in str(error):
                    raise
                if time.monotonic() > deadline:
                    words = f"tenant {name} was not deleted: the host's API server does not know the kind TenantClass"
                    next_step = "kubectl get crd tenantclasses.bulkhead.dev; then delete it again"
                    raise CliError(words, next_step=next_step) from error
                progress.show("waiting until the host's API server has learned of the classes of tenants")
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return


async def _asks(client: Client, tenant: Obj) -> bool:
    """Whether the class asks that a deletion is confirmed; without a right to read classes the host's refusal says so."""
    try:
        found = await client.get(kinds.TENANT_CLASSES, str(mapping(tenant.get("spec")).get("class") or ""))
    except (NotFound, Forbidden):
        return False
    return mapping(mapping(found.get("spec")).get("deletion")).get("confirm") is True
