"""`bulkhead tenant delete`: a tenant and everything in it, once the user has typed its name."""

import argparse
import asyncio
from dataclasses import dataclass

from bulkhead.api.labels import CONFIRM
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, NotFound
from workstation.cli import connection
from workstation.cli.arguments import Host, Wait, add_host, add_tenant, add_wait, host_of, wait_of
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress
from workstation.cli.parsing import Actions
from workstation.cli.tenant import confirmation, waiting


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
        description="Delete a tenant with its plane, its data and its pods. This cannot be undone.",
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
        return asyncio.run(_delete(request))
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
        if not request.confirmed:
            warning = f"This deletes tenant {name} with its API server, its data and its pods"
            confirmation.ask(name, "deleting it destroys all its data", warning, "not deleted")
        uid = str(tenant["metadata"]["uid"])
        if await _asks(client, tenant):
            # Typing the name, or --yes, is the confirmation that its class asks for.
            await client.patch(kinds.TENANTS, name, {"metadata": {"uid": uid, "annotations": {CONFIRM: uid}}})
        await client.delete(kinds.TENANTS, name, uid=uid)
        if not request.wait.wanted:
            print(f"tenant {name} is being deleted")
            return Exit.DONE
        with Progress() as progress:
            await waiting.until_gone(client, name, uid, seconds=request.wait.seconds, progress=progress)
    print(f"tenant {name} deleted")
    return Exit.DONE


async def _asks(client: Client, tenant: Obj) -> bool:
    """Whether the class asks that a deletion is confirmed; without a right to read classes the host's refusal says so."""
    try:
        found = await client.get(kinds.TENANT_CLASSES, str(mapping(tenant.get("spec")).get("class") or ""))
    except (NotFound, Forbidden):
        return False
    return mapping(mapping(found.get("spec")).get("deletion")).get("confirm") is True
