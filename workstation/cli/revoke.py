"""`bulkhead revoke`: the tenant's API server stops accepting certificates that it accepts now.

This affects the certificates of all users. Users that are named get no new ones until that is lifted.
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
from workstation.cli import connection, eventloop
from workstation.cli.arguments import Host, Wait, add_host, add_tenant, add_wait, host_of, wait_of
from workstation.cli.credentials import certificate, document
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress, plain
from workstation.cli.parsing import RAW, Parser
from workstation.cli.tenant import confirmation

_TRIES: Final = 5
_POLL_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 4.0
_SILENCE_SECONDS: Final = 20.0
_ANSWER_LIMIT_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class RevokeRequest:
    """`revoke TENANT (USER… | --all | --lift USER)`."""

    host: Host
    tenant: str
    # Names without the host's prefix; empty to revoke all certificates without naming a user.
    users: tuple[str, ...]
    # Whether the users may log in again.
    lift: bool
    wait: Wait
    # Whether the question on a terminal was answered by an option.
    confirmed: bool = False


def add_arguments(parser: Parser) -> None:
    """`revoke`."""
    parser.usage = "%(prog)s [options] TENANT (USER ... | --all | --lift USER)"
    parser.description = (
        "Revoke the certificates that users have for a tenant. All of them end, because one CA signs them all: the other "
        "users' kubectl is refused once and then gets a new one; users that are named get none until that is lifted."
    )
    parser.epilog = (
        "examples:\n  bulkhead revoke red alice@example.org\n  bulkhead revoke red --all\n"
        "  bulkhead revoke red --lift alice@example.org\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    add_tenant(parser)
    parser.add_argument("users", metavar="USER", nargs="*", help="users, by their names on the host's API server")
    parser.add_argument("--all", action="store_true", help="end all certificates, and let all users get new ones")
    parser.add_argument("--lift", metavar="USER", action="append", default=[], help="let a user log in again; may be repeated")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask; without a terminal the command never asks")
    add_wait(parser, "until the tenant's API server refuses them")
    parser.does(_request, revoke)


def _request(options: argparse.Namespace) -> RevokeRequest:
    if sum(map(bool, (options.users, options.all, options.lift))) != 1:
        raise CliError("one of USER, --all and --lift is required", next_step="bulkhead revoke --help", code=Exit.USAGE)
    named = (user.removeprefix(names.HOST_USER_PREFIX) for user in options.lift or options.users)
    users = tuple(dict.fromkeys(named))
    return RevokeRequest(host_of(options), options.tenant, users, bool(options.lift), wait_of(options), options.yes)


def revoke(request: RevokeRequest) -> int:
    """`bulkhead revoke TENANT (USER... | --all | --lift USER)`."""
    return eventloop.run(_revoke(request))


async def _revoke(request: RevokeRequest) -> int:
    name, users, lift = request.tenant, list(request.users), request.lift
    async with connection.host_client(request.host) as client:
        tenant = await connection.get_tenant(client, name)
        # A pipeline that revokes in an emergency gets no question.
        if not lift and not request.confirmed and sys.stdin.isatty():
            warning = f"This ends the certificates of all users of tenant {name}; {_new_ones(users)}"
            confirmation.ask(name, "this ends all certificates", warning, "not revoked")
        before = await _own(client, request.host, tenant) if request.wait.wanted and not lift else None
        earlier = await _write(client, tenant, users, lift=lift)
    if lift:
        _say_lifted(name, users, earlier)
        return Exit.DONE
    certificate.entry_of(request.host, name).clear()
    _check_followed(tenant)
    print(_outcome(tenant, refused=before is not None and await _refused(tenant, before, request.wait.seconds)))
    if users:
        sys.stderr.write(f"{', '.join(users)} get no new ones; other users' kubectl is refused once, and then gets new ones\n")
        sys.stderr.write("objects that they created remain: check for their ServiceAccount tokens and RoleBindings\n")
    return Exit.DONE


def _outcome(tenant: Obj, *, refused: bool) -> str:
    """What holds once the Tenant was written; `refused`: an API server of its plane was seen to refuse a certificate."""
    name = document.name_of(tenant)
    if not refused:
        return f"tenant {name}: all its certificates are revoked; its API server refuses them within two minutes"
    if condition_of(tenant, ConditionType.MEMBERS_SPREAD):
        return f"tenant {name}: an API server of its plane refuses all earlier certificates, the others do within two minutes"
    return f"tenant {name}: all earlier certificates are refused"


def _say_lifted(tenant: str, users: list[str], revoked: list[str]) -> None:
    """Say which users may log in again, and which names had not been revoked: a typing error leaves another user revoked."""
    lifted = [user for user in users if user in revoked]
    if lifted:
        print(f"tenant {tenant}: {', '.join(lifted)} may log in again")
    if others := [user for user in users if user not in revoked]:
        left = [user for user in revoked if user not in lifted]
        rest = f"revoked are: {', '.join(map(plain, left))}" if left else "no user is revoked"
        sys.stderr.write(f"warning: tenant {tenant}: {', '.join(map(plain, others))}: not revoked before; {rest}\n")


def _new_ones(users: list[str]) -> str:
    """The sentence about new certificates: all users get them but the revoked ones."""
    subject = f"all but {', '.join(users)}" if users else "they"
    return f"{subject} get new ones at their next command"


def _check_followed(tenant: Obj) -> None:
    """Raise CliError if the controller does not reconcile the tenant now, so that the plane does not learn of the change."""
    ready = condition_of(tenant, ConditionType.READY) or {}
    if ready.get("reason") in {Reason.INVALID_NAME, Reason.NAMESPACE_TAKEN}:
        name = document.name_of(tenant)
        raise CliError(
            f"tenant {name}: written, but its plane does not learn of it while the tenant is {ready['reason']}; no user gets a "
            "new certificate, and earlier ones work for an hour at most",
            next_step=f"see what to correct: bulkhead tenant describe {name}",
            code=Exit.FAILED,
        )


async def _own(client: Client, host: Host, tenant: Obj) -> certificate.Certificate | None:
    """An earlier certificate, to see when it is refused; None for a user who may revoke but not log in."""
    try:
        document.place_of(tenant)
        return await certificate.current(client, host, tenant)
    except (CliError, KubeError):
        return None


async def _write(client: Client, tenant: Obj, users: list[str], *, lift: bool) -> list[str]:
    """Write the change; the names of the users who were revoked before it."""
    name = document.name_of(tenant)
    for _ in range(_TRIES):
        revoked = [str(user) for user in mapping(mapping(tenant["spec"]).get("access")).get("revokedUsers") or ()]
        # One write: a user who is revoked asks for the next certificate only after it.
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
            return [user.removeprefix(names.HOST_USER_PREFIX) for user in revoked]
    raise CliError(f"tenant {name}: not revoked: other clients change it all the time", next_step="try again")


async def _refused(tenant: Obj, found: certificate.Certificate, seconds: float) -> bool:
    """Whether the tenant's API server was seen to refuse a certificate that it accepted before."""
    begin = answered = time.monotonic()
    data = document.with_certificate(tenant, found)
    plane = connection.plane_client(data, seconds=_ASK_SECONDS, answer_bytes=_ANSWER_LIMIT_BYTES)
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
                progress.show("waiting until its API server refuses earlier certificates")
                await asyncio.sleep(_POLL_SECONDS)
    return False
