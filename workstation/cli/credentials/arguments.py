"""Options of signing in at an identity provider, and the frozen parts of a request that they become."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from workstation.cli import values
from workstation.cli.credentials.provider import Issuer, authority_of
from workstation.cli.failures import CliError, Exit


@dataclass(frozen=True, slots=True)
class SignIn:
    """How a person signs in: by a browser here, by a code on another device, or whichever there is."""

    browser: bool = False
    device: bool = False
    # Where the browser's answer comes; 0 for any port.
    redirect_port: int = 0


def add_issuer(parser: argparse.ArgumentParser) -> None:
    """The provider, where the command line says which it is."""
    group = parser.add_argument_group("identity provider")
    group.add_argument("--issuer-url", metavar="URL", help="its issuer, instead of what the Tenant says")
    group.add_argument("--client-id", metavar="ID", help="the client that signs in there, an audience of the tenant")
    group.add_argument("--discovery-url", metavar="URL", help="its discovery document, where that is not below the issuer")
    authority = group.add_mutually_exclusive_group()
    authority.add_argument("--issuer-ca", metavar="FILE", help="what it is verified with (default: this machine's authorities)")
    authority.add_argument("--issuer-ca-data", metavar="BASE64", help="the same, as it stands in kubeconfigs")
    group.add_argument("--scope", metavar="SCOPE", action="append", default=[], help="ask for this scope too; may be repeated")
    group.add_argument(
        "--redirect-port", metavar="PORT", type=values.port, default=0, help="where the browser's answer comes (default: any)"
    )
    add_way(parser)


def issuer_of(options: argparse.Namespace) -> Issuer | None:
    """The provider that the words name; None where they name none. CliError for half of one."""
    if not options.issuer_url and not options.client_id:
        return None
    if not options.issuer_url or not options.client_id:
        raise CliError(
            "--issuer-url and --client-id go together",
            next_step="ask who gave you the issuer for its client id",
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
    way.add_argument("--device", action="store_true", help="sign in on another device, by a code that is shown here")


def sign_in_of(options: argparse.Namespace, redirect_port: int = 0) -> SignIn:
    """How to sign in."""
    return SignIn(options.browser, options.device, redirect_port)


def add_file(parser: argparse.ArgumentParser) -> None:
    """`-f FILE`, which stands in for the name of the tenant."""
    parser.add_argument("-f", "--file", metavar="FILE", help="the file that the tenant's admin gave you")


def tenant_of(options: argparse.Namespace) -> str | None:
    """The tenant, or None where its file names it. CliError where neither is given."""
    if options.tenant is None and not options.file:
        raise CliError("no tenant is named", next_step="name one, or give its file with -f", code=Exit.USAGE)
    found: str | None = options.tenant
    return found
