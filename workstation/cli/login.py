"""`bulkhead login`: get a credential now, keep it for this user, and write a kubeconfig without secrets.

The kubeconfig names the command that renews the credential.
"""

import argparse
import dataclasses
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from bulkhead.api import names
from bulkhead.api.objects import Obj
from bulkhead.kube.errors import ConfigError
from bulkhead.kube.kubeconfig import https_server
from workstation.cli import access, arrival, connection, eventloop, homefolder
from workstation.cli.arguments import Host, Target, add_host, add_target, add_tenant, host_of, target_of
from workstation.cli.credentials import certificate, choice, document, handed, token
from workstation.cli.credentials.arguments import SignIn, add_file, add_issuer, issuer_of, sign_in_of, tenant_of
from workstation.cli.credentials.choice import Wanted
from workstation.cli.credentials.handed import Handed
from workstation.cli.credentials.provider import Issuer
from workstation.cli.failures import CliError, Exit
from workstation.cli.output import document as print_document
from workstation.cli.output import plain
from workstation.cli.parsing import RAW, Parser


@dataclass(frozen=True, slots=True)
class Server:
    """Where a tenant's API is, from the options of a user who may not read the Tenant."""

    address: str
    authority_file: str
    tls_name: str | None


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """`login (TENANT | -f FILE)`."""

    host: Host
    # None if the file names it.
    tenant: str | None
    file: str | None
    wanted: Wanted
    # Overrides the Tenant.
    issuer: Issuer | None
    server: Server | None
    sign_in: SignIn
    target: Target


def add_arguments(parser: Parser) -> None:
    """`login`."""
    parser.usage = "%(prog)s [options] (TENANT | -f FILE)"
    parser.description = (
        "Log in to a tenant at its identity provider, with a browser or with a code on another device. If the tenant has no\n"
        "provider, or with --certificate, you log in as your user on the host and get a certificate for an hour.\n"
        "The credential is kept in your cache; the kubeconfig names this command, and kubectl calls it for the next one."
    )
    parser.epilog = (
        "examples:\n  bulkhead login red\n  bulkhead login red --device\n  kubectl bulkhead login red\n"
        "without rights on the host, with the file that the tenant's admin gave you (bulkhead kubeconfig red --oidc):\n"
        "  bulkhead login -f red.yaml\n"
        "  bulkhead connect red -- kubectl get pods\n"
        "or without a file:\n  bulkhead login red --server https://red.k8s.example.org --server-ca red.crt "
        "\\\n      --issuer-url https://login.example.org --client-id bulkhead-red\n"
    )
    parser.formatter_class = RAW
    add_host(parser)
    add_tenant(parser, optional=True)
    add_file(parser)
    parser.add_argument("--issuer", metavar="NAME", help="one of the tenant's identity providers (default: the first)")
    parser.add_argument("--certificate", action="store_true", help="log in as your user on the host, even if it has a provider")
    add_issuer(parser)
    parser.add_argument("--server", metavar="URL", help="the tenant's API, if you may not read the Tenant")
    parser.add_argument("--server-ca", metavar="FILE", help="the CA that verifies --server")
    parser.add_argument("--tls-server-name", metavar="NAME", help="name in the certificate, if it differs from the address")
    add_target(parser, "the result", "default: ~/.kube/bulkhead/TENANT.yaml, unless that is of another cluster")
    parser.does(_request, login)


def _request(options: argparse.Namespace) -> LoginRequest:
    return LoginRequest(
        host=host_of(options),
        tenant=tenant_of(options),
        file=options.file,
        wanted=Wanted(options.issuer, options.certificate, tuple(options.scope)),
        server=_server(options),
        issuer=issuer_of(options),
        sign_in=sign_in_of(options, options.redirect_port),
        target=target_of(options),
    )


def _server(options: argparse.Namespace) -> Server | None:
    if (
        bool(options.server) != bool(options.server_ca)
        or (options.server and not options.issuer_url)
        or (options.tls_server_name and not options.server)
    ):
        raise CliError(
            "--server, --server-ca and --issuer-url go together",
            next_step="give all three, or only a kubeconfig of the host",
            code=Exit.USAGE,
        )
    if not options.server:
        return None
    try:
        address = https_server(options.server)
    except ConfigError as error:
        raise CliError(f"--server {options.server}: it must be https://HOST[:PORT]", code=Exit.USAGE) from error
    return Server(address, options.server_ca, options.tls_server_name)


def login(request: LoginRequest) -> int:
    """`bulkhead login (TENANT | -f FILE) [--write FILE]`."""
    found = _without_host(request)
    if found is not None:
        return _arrive(request, found)
    name = str(request.tenant)
    tenant, issuer, ends = eventloop.run(_log_in(request, name))
    if issuer is None:
        data = document.with_certificates(request.host, tenant)
    else:
        ends = token.current(issuer, name, request.sign_in).ends
        data = document.with_tokens(tenant, issuer, document.own_command(), request.sign_in.redirect_port)
    _finish(request, name, data, ends)
    return Exit.DONE


def _without_host(request: LoginRequest) -> Handed | None:
    """How to log in without asking the host: by a file, by the kubeconfig of an earlier login, or by the options."""
    if request.file:
        return handed.given(request.file, request.tenant)
    name = str(request.tenant)
    if request.server is not None and request.issuer is not None:
        return Handed(_stated(name, request.server), request.issuer, request.sign_in.redirect_port)
    stated = request.issuer or request.wanted.issuer or request.wanted.certificate
    return None if stated else handed.instead_of_host(request.host, name)


def _check_target(request: LoginRequest, tenant: Obj) -> None:
    """Raise CliError if the usual file is that of a tenant of this name on another cluster. Called before users sign in."""
    if request.target.path:
        return
    name = document.name_of(tenant)
    path, (server, _) = handed.default_file(name), document.place_of(tenant)
    for other in handed.addresses_in(path):
        if other.rstrip("/") != server.rstrip("/"):
            raise CliError(
                f"{path} is of a cluster at {plain(other)}, and tenant {name} is at {server}; nothing was changed",
                next_step=f"keep both, and name another file: --write FILE; or delete the former one: rm {path}",
            )


def _arrive(request: LoginRequest, found: Handed) -> int:
    """Log in without rights on the host. The tenant is looked for first, so that users do not sign in for nothing."""
    _check_target(request, found.tenant)
    looks = not arrival.proxied(found.tenant)
    if looks:
        arrival.reach(found)
    way = dataclasses.replace(request.sign_in, redirect_port=request.sign_in.redirect_port or found.redirect_port)
    tokens = token.current(found.issuer, found.name, way)
    user = arrival.name_of(found, tokens) if looks else ""
    data = document.with_tokens(found.tenant, found.issuer, document.own_command(), way.redirect_port)
    _finish(request, found.name, data, tokens.ends, user)
    return Exit.DONE


def _finish(request: LoginRequest, name: str, data: bytes, ends: float, user: str = "") -> None:
    """Write the kubeconfig, and print how long the credential is valid."""
    chosen = request.target.path
    path = homefolder.expanded(chosen) if chosen else handed.default_file(name)
    if not chosen:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    access.write_private(path, data)
    moment = datetime.fromtimestamp(ends).astimezone()
    if request.target.form:
        stamp = moment.isoformat(timespec="seconds")
        made = {"tenant": name, "user": user or None, "kubeconfig": str(path), "credentialEndsAt": stamp}
        print_document(made, request.target.form)
        return
    print(f"logged in to tenant {name}{f' as {user}' if user else ''} until {moment:%H:%M}; kubectl renews it by itself")
    sys.stderr.write(f"next:  export KUBECONFIG={path}\n")


def _stated(name: str, server: Server) -> Obj:
    """The parts of the Tenant that a login needs, from the options of a user without rights on the host."""
    names.check_tenant_name(name)
    try:
        authority = Path(server.authority_file).read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise CliError(f"cannot read {server.authority_file}", next_step="give a file of PEM certificates") from error
    return {
        "metadata": {"name": name},
        "status": {
            "endpoint": server.address,
            "certificateAuthority": authority,
            "tlsServerName": server.tls_name,
        },
    }


async def _log_in(request: LoginRequest, name: str) -> tuple[Obj, Issuer | None, float]:
    """The tenant, the provider to sign in to, or else the certificate's expiry in seconds since 1970."""
    async with connection.host_client(request.host) as client:
        tenant = await connection.get_tenant(client, name)
        document.place_of(tenant)
        _check_target(request, tenant)
        issuer = request.issuer or choice.of_tenant(tenant, request.wanted)
        ends = 0.0 if issuer else (await certificate.current(client, request.host, tenant)).ends
    return tenant, issuer, ends
