"""`bulkhead login`, `logout` and `revoke`: people's own way in, and out.

login    a credential now, kept for this user; a kubeconfig that names the command which renews it, without secrets
logout   what is kept of a tenant is removed from this machine
revoke   the tenant's API server stops believing certificates that it believes now: everybody's, or one person's for good
"""

import argparse
import asyncio
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bulkhead.api import names
from bulkhead.api.conditions import ConditionType, Reason, condition_of
from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, KubeError, Unauthorized, Unprocessable
from bulkhead.kube.kubeconfig import KubeConfig
from workstation.cli import access, arrival, connection
from workstation.cli.credentials import cache, certificate, choice, document, handed, token
from workstation.cli.credentials.handed import Handed
from workstation.cli.credentials.provider import Issuer
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import Progress

_TRIES: Final = 5
_POLL: Final = 1.0
_ASK_SECONDS: Final = 4.0
_SILENCE_SECONDS: Final = 20.0
_BODY: Final = 1 << 20


def login(options: argparse.Namespace) -> int:
    """`bulkhead login (TENANT | -f FILE) [-o FILE]`."""
    if (
        bool(options.server) != bool(options.server_ca)
        or (options.server and not options.issuer_url)
        or (options.tls_server_name and not options.server)
    ):
        raise CliError(
            "--server, --server-ca and --issuer-url go together",
            next_step="give all three, or a kubeconfig of the host alone",
            code=Exit.USAGE,
        )
    found = handed.given(options) or _kept_without_host(options)
    if found is not None:
        return _arrive(options, found)
    if options.server:
        return _arrive(options, Handed(_stated(options), token.issuer_of(options), options.redirect_port))
    tenant, issuer, ends = asyncio.run(_log_in(options))
    if issuer is None:
        data = document.with_certificates(options, tenant)
    else:
        ends = token.current(issuer, options).ends
        data = document.with_tokens(tenant, issuer, document.own_command(), options.redirect_port)
    _finish(options, data, ends)
    return Exit.DONE


def _kept_without_host(options: argparse.Namespace) -> Handed | None:
    """What this person logged in with before, where there is no host to ask."""
    stated = options.server or options.issuer_url or options.issuer or options.certificate
    return None if stated else handed.instead_of_host(options)


def _arrive(options: argparse.Namespace, found: Handed) -> int:
    """Log in without any right on the host: the tenant is looked for first, so that nobody signs in for nothing."""
    looks = not arrival.proxied()
    if looks:
        arrival.reach(found)
    options.redirect_port = options.redirect_port or found.redirect_port
    tokens = token.current(found.issuer, options)
    who = arrival.name_of(found, tokens) if looks else ""
    data = document.with_tokens(found.tenant, found.issuer, document.own_command(), options.redirect_port)
    _finish(options, data, tokens.ends, f" as {who}" if who else "")
    return Exit.DONE


def _finish(options: argparse.Namespace, data: bytes, ends: float, who: str = "") -> None:
    path = Path(options.output).expanduser() if options.output else handed.default_file(options.tenant)
    if not options.output:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    access.write_private(path, data)
    moment = datetime.fromtimestamp(ends).astimezone().strftime("%H:%M")
    print(f"logged in to tenant {options.tenant}{who} until {moment}; kubectl renews it by itself")
    sys.stderr.write(f"next:  export KUBECONFIG={path}\n")


def _stated(options: argparse.Namespace) -> Obj:
    """The Tenant as far as a login needs it, from the words of who has no rights on the host."""
    names.check_tenant_name(options.tenant)
    try:
        authority = Path(options.server_ca).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise CliError(f"cannot read {options.server_ca}", next_step="give a file of PEM certificates") from error
    return {
        "metadata": {"name": options.tenant},
        "status": {
            "endpoint": options.server,
            "certificateAuthority": authority,
            "tlsServerName": options.tls_server_name,
        },
    }


async def _log_in(options: argparse.Namespace) -> tuple[Obj, Issuer | None, float]:
    """The tenant, and either whom to sign in to or until when the certificate is good."""
    async with connection.host_client(options) as client:
        tenant = await connection.get_tenant(client, options.tenant)
        document.place_of(tenant)
        issuer = token.issuer_of(options) if options.issuer_url else choice.of_tenant(tenant, options)
        ends = 0.0 if issuer else (await certificate.current(client, options, tenant)).ends
    return tenant, issuer, ends


def logout(options: argparse.Namespace) -> int:
    """`bulkhead logout TENANT | --all`."""
    if not options.all and options.tenant is None:
        raise CliError("nothing to log out of", next_step="name a tenant, or give --all", code=Exit.USAGE)
    removed = cache.forget(None if options.all else options.tenant)
    what = "every tenant" if options.all else f"tenant {options.tenant}"
    print(f"logged out of {what}: {removed} credentials removed" if removed else f"nothing was kept of {what}")
    return Exit.DONE


def revoke(options: argparse.Namespace) -> int:
    """`bulkhead revoke TENANT (USER... | --all | --lift USER)`."""
    if sum(map(bool, (options.users, options.all, options.lift))) != 1:
        raise CliError("give one of USER, --all and --lift", next_step="bulkhead revoke --help", code=Exit.USAGE)
    return asyncio.run(_revoke(options))


async def _revoke(options: argparse.Namespace) -> int:
    name, lift = options.tenant, bool(options.lift)
    users = [each.removeprefix(names.HOST_USER_PREFIX) for each in options.lift or options.users]
    async with connection.host_client(options) as client:
        tenant = await connection.get_tenant(client, name)
        before = await _own(client, options, tenant) if options.wait and not lift else None
        await _write(client, tenant, users, lift=lift)
    if lift:
        print(f"tenant {name}: {', '.join(users)} may log in again")
        return Exit.DONE
    certificate.entry_of(options, name).clear()
    _check_followed(tenant)
    if before is None or not await _refused(tenant, before, options.timeout):
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


async def _own(client: Client, options: argparse.Namespace, tenant: Obj) -> certificate.Certificate | None:
    """A certificate from before, by which to see that it is refused; None for who may revoke and not log in."""
    try:
        document.place_of(tenant)
        return await certificate.current(client, options, tenant)
    except (CliError, KubeError):
        return None


async def _write(client: Client, tenant: Obj, users: list[str], *, lift: bool) -> None:
    name = document.name_of(tenant)
    for _ in range(_TRIES):
        revoked = [str(each) for each in mapping(mapping(tenant["spec"]).get("access")).get("revokedUsers") or ()]
        # One write: who is revoked asks for the next certificate after it.
        change: dict[str, Any] = {} if lift else {"certificatesRevoked": datetime.now(UTC).isoformat()}
        if users:
            left = [each for each in revoked if each.removeprefix(names.HOST_USER_PREFIX) not in users]
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
