"""Options for signing in at an identity provider, and the frozen parts of a request that they become."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from workstation.cli import values
from workstation.cli.credentials.provider import Issuer, authority_of
from workstation.cli.failures import CliError, Exit


@dataclass(frozen=True, slots=True)
class SignIn:
    """How to sign in: with a browser here, with a code on another device, or with whichever is available."""

    browser: bool = False
    device: bool = False
    # The port to which the browser is redirected; 0 for any port.
    redirect_port: int = 0


def add_issuer(parser: argparse.ArgumentParser) -> None:
    """The options that describe a provider."""
    group = parser.add_argument_group("identity provider")
    group.add_argument("--issuer-url", metavar="URL", help="its issuer URL, instead of the Tenant's")
    group.add_argument("--client-id", metavar="ID", help="the client that signs in there; must be an audience of the tenant")
    group.add_argument("--discovery-url", metavar="URL", help="its discovery document, if that is not below the issuer URL")
    authority = group.add_mutually_exclusive_group()
    authority.add_argument(
        "--issuer-ca", metavar="FILE", help="the CA that signs its certificate (default: this machine's CAs)"
    )
    authority.add_argument("--issuer-ca-data", metavar="BASE64", help="the same in base64, as kubeconfigs contain it")
    group.add_argument("--scope", metavar="SCOPE", action="append", default=[], help="request this scope too; may be repeated")
    group.add_argument(
        "--redirect-port", metavar="PORT", type=values.port, default=0, help="port for the browser's redirect (default: any)"
    )
    add_way(parser)


def issuer_of(options: argparse.Namespace) -> Issuer | None:
    """The provider that the options name; None if they name none. Raises CliError if one of the two is missing."""
    if not options.issuer_url and not options.client_id:
        return None
    if not options.issuer_url or not options.client_id:
        raise CliError(
            "--issuer-url and --client-id go together",
            next_step="ask the admin who gave you the issuer for its client id",
            code=Exit.USAGE,
        )
    authority = authority_of(options.issuer_ca_data) if options.issuer_ca_data else ""
    if options.issuer_ca:
        try:
            authority = Path(options.issuer_ca).read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise CliError(f"cannot read {options.issuer_ca}", next_step="give a file of PEM certificates") from error
    return Issuer(options.issuer_url, options.client_id, options.discovery_url or "", authority, tuple(options.scope))


def add_way(parser: argparse.ArgumentParser) -> None:
    """`--browser` and `--device`."""
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--browser", action="store_true", help="sign in with a browser on this machine")
    way.add_argument("--device", action="store_true", help="sign in on another device with a code that is shown here")


def sign_in_of(options: argparse.Namespace, redirect_port: int = 0) -> SignIn:
    """How to sign in."""
    return SignIn(options.browser, options.device, redirect_port)


def add_file(parser: argparse.ArgumentParser) -> None:
    """`-f FILE`, which replaces the name of the tenant."""
    parser.add_argument("-f", "--file", metavar="FILE", help="the file that the tenant's admin gave you")


def tenant_of(options: argparse.Namespace) -> str | None:
    """The tenant, or None if its file names it. Raises CliError if neither is given."""
    if options.tenant is None and not options.file:
        raise CliError("the tenant is missing", next_step="name it, or give its file with -f", code=Exit.USAGE)
    found: str | None = options.tenant
    return found
