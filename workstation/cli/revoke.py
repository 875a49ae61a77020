"""`bulkhead revoke`: the tenant's API server stops believing certificates that it believes now.

They are those of all; people who are named get none until that is lifted.
"""

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from bulkhead.api import names
from bulkhead.api.conditions import ConditionType, Reason, condition_of
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, KubeError, Unauthorized, Unprocessable
from bulkhead.kube.kubeconfig import KubeConfig
from workstation.cli import connection
from workstation.cli.arguments import Host, Wait, add_host, add_tenant, add_wait, host_of, wait_of
from workstation.cli.credentials import certificate, document
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress
from workstation.cli.parsing import RAW, Parser

_TRIES: Final = 5
_POLL: Final = 1.0
_ASK_SECONDS: Final = 4.0
_SILENCE_SECONDS: Final = 20.0
_BODY: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RevokeRequest:
    """`revoke TENANT (USER… | --all | --lift USER)`."""

    host: Host
    tenant: str
    # Without the prefix of the host; empty for all certificates, and no person.
    users: tuple[str, ...]
    # Whether the users may log in again.
    lift: bool
    wait: Wait


def add_arguments(parser: Parser) -> None:
    """`revoke`."""
    parser.usage = "%(prog)s [options] TENANT (USER ... | --all | --lift USER)"
    parser.description = (
        "Revoke the certificates that people hold for a tenant. All of them end, as they are of one CA, and "
        "everybody else's kubectl is refused once and then has a new one; users that are named get none until that is lifted."
    )
    parser.epilog = (
        "examples:\n  bulkhead revoke red alice@example.org\n  bulkhead revoke red --all\n"
        "  bulkhead revoke red --lift alice@example.org\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    add_tenant(parser)
    parser.add_argument("users", metavar="USER", nargs="*", help="users by the names that the host's API server gives them")
    parser.add_argument("--all", action="store_true", help="end all certificates, and let everybody fetch a new one")
    parser.add_argument("--lift", metavar="USER", action="append", default=[], help="let a user log in again; may be repeated")
    add_wait(parser, "until the tenant's API server refuses them")
    parser.does(_request, revoke)


def _request(options: argparse.Namespace) -> RevokeRequest:
    if sum(map(bool, (options.users, options.all, options.lift))) != 1:
        raise CliError("give one of USER, --all and --lift", next_step="bulkhead revoke --help", code=Exit.USAGE)
    users = tuple(user.removeprefix(names.HOST_USER_PREFIX) for user in options.lift or options.users)
    return RevokeRequest(host_of(options), options.tenant, users, bool(options.lift), wait_of(options))


def revoke(request: RevokeRequest) -> int:
    """`bulkhead revoke TENANT (USER... | --all | --lift USER)`."""
    return asyncio.run(_revoke(request))


async def _revoke(request: RevokeRequest) -> int:
    name, users, lift = request.tenant, list(request.users), request.lift
    async with connection.host_client(request.host) as client:
        tenant = await connection.get_tenant(client, name)
        before = await _own(client, request.host, tenant) if request.wait.wanted and not lift else None
        await _write(client, tenant, users, lift=lift)
    if lift:
        print(f"tenant {name}: {', '.join(users)} may log in again")
        return Exit.DONE
    certificate.entry_of(request.host, name).clear()
    _check_followed(tenant)
    if before is None or not await _refused(tenant, before, request.wait.seconds):
        print(f"tenant {name}: all its certificates are revoked; its API server refuses them within two minutes")
    else:
        print(f"tenant {name}: all certificates from before are refused")
    if users:
        sys.stderr.write(f"{', '.join(users)} get no new ones; the others' kubectl is refused once, and then has new ones\n")
        sys.stderr.write("what they made inside stays: look for ServiceAccount tokens and RoleBindings of theirs\n")
    return Exit.DONE


def _check_followed(tenant: Obj) -> None:
    """CliError where the controller changes nothing of the tenant now, so that the plane will not hear of it."""
    ready = condition_of(tenant, ConditionType.READY) or {}
    if ready.get("reason") in {Reason.INVALID_NAME, Reason.NAMESPACE_TAKEN}:
        name = document.name_of(tenant)
        raise CliError(
            f"tenant {name}: written, but its plane does not hear of it while the tenant is {ready['reason']}; nobody gets a "
            "new certificate, and those from before go on for an hour at most",
            next_step=f"end that: bulkhead tenant describe {name}",
            code=Exit.FAILED,
        )


async def _own(client: Client, host: Host, tenant: Obj) -> certificate.Certificate | None:
    """A certificate from before, by which to see that it is refused; None for who may revoke and not log in."""
    try:
        document.place_of(tenant)
        return await certificate.current(client, host, tenant)
    except (CliError, KubeError):
        return None


async def _write(client: Client, tenant: Obj, users: list[str], *, lift: bool) -> None:
    name = document.name_of(tenant)
    for _ in range(_TRIES):
        revoked = [str(user) for user in mapping(mapping(tenant["spec"]).get("access")).get("revokedUsers") or ()]
        # One write: who is revoked asks for the next certificate after it.
        change: dict[str, Any] = {} if lift else {"certificatesRevoked": datetime.now(UTC).isoformat()}
        if users:
            left = [user for user in revoked if user.removeprefix(names.HOST_USER_PREFIX) not in users]
            change["revokedUsers"] = left if lift else [*left, *users]
        body = {"metadata": {"resourceVersion": tenant["metadata"]["resourceVersion"]}, "spec": {"access": change}}
        try:
            await client.patch(kinds.TENANTS, name, body)
        except Conflict:
            tenant = await connection.get_tenant(client, name)
        except Unprocessable as error:
            raise CliError(f"tenant {name}: not revoked: {error}") from error
        else:
            return
    raise CliError(f"tenant {name}: it is changed all the time; nobody was revoked", next_step="try again")


async def _refused(tenant: Obj, found: certificate.Certificate, seconds: float) -> bool:
    """Whether the tenant's API server was seen to refuse a certificate that it believed before."""
    config = KubeConfig.from_bytes(document.with_certificate(tenant, found), hostile=True)
    begin = answered = time.monotonic()
    plane = Client(config, user_agent="bulkhead-cli", field_manager="bulkhead-cli", timeout=_ASK_SECONDS, max_body=_BODY)
    with Progress() as progress:
        async with plane:
            while time.monotonic() < min(begin + seconds, answered + _SILENCE_SECONDS):
                try:
                    await plane.get(kinds.NAMESPACES, "default")
                    answered = time.monotonic()
                except Unauthorized:
                    return True
                except (KubeError, TimeoutError):
                    pass
                progress.show("waiting until its API server refuses certificates from before")
                await asyncio.sleep(_POLL)
    return False
