"""The kubeconfigs that users get: the address of a tenant's API, and the command that fetches a credential. No secrets.

They need only the Tenant's status: its endpoint, and the CA that verifies it.
"""

import base64
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from bulkhead.api.kubeconfig import Credential, Plugin, kubeconfig
from bulkhead.api.objects import Obj
from workstation.cli import hostfile
from workstation.cli.arguments import Host
from workstation.cli.credentials.certificate import Certificate
from workstation.cli.credentials.provider import Issuer
from workstation.cli.failures import CliError, Exit

HINT = "The command bulkhead is missing: pip install bulkhead, or ask the admin who gave you this file."


def with_certificates(host: Host, tenant: Obj) -> bytes:
    """A kubeconfig for admins of the host: certificates for an hour, fetched with the host's kubeconfig."""
    path = str(hostfile.find_kubeconfig(host.kubeconfig).resolve())
    words = ["credential", "certificate", name_of(tenant), "--kubeconfig", path]
    words += ["--context", host.context] if host.context else []
    command, *more = own_command()
    return _document(tenant, "host-admin", Plugin(command, (*more, *words), HINT))


def with_tokens(tenant: Obj, issuer: Issuer, command: Sequence[str], redirect_port: int = 0) -> bytes:
    """A kubeconfig for users who sign in to an identity provider. It contains all that this needs, and no secret."""
    words = ["credential", "token", name_of(tenant), "--issuer-url", issuer.url, "--client-id", issuer.client]
    words += ["--discovery-url", issuer.discovery_url] if issuer.discovery_url else []
    if issuer.certificate_authority:
        words += ["--issuer-ca-data", base64.b64encode(issuer.certificate_authority.encode()).decode()]
    for scope in issuer.scopes:
        words += ["--scope", scope]
    words += ["--redirect-port", str(redirect_port)] if redirect_port else []
    program, *more = command
    return _document(tenant, "person", Plugin(program, (*more, *words), HINT))


def with_certificate(tenant: Obj, found: Certificate) -> bytes:
    """A kubeconfig that contains one certificate, and is useless once that expires."""
    return _document(tenant, "host-admin", Credential(found.certificate.encode(), found.key.encode()))


def own_command() -> list[str]:
    """A command line that starts this program again, from any folder."""
    program = shutil.which(sys.argv[0]) if os.path.basename(sys.argv[0]) in {"bulkhead", "kubectl-bulkhead"} else None  # noqa: PTH119
    return [str(Path(program).absolute())] if program else [sys.executable, "-m", "workstation.cli.main"]


def name_of(tenant: Obj) -> str:
    """The tenant's name."""
    return str(tenant["metadata"]["name"])


def _document(tenant: Obj, user: str, credential: Credential | Plugin) -> bytes:
    server, authority = place_of(tenant)
    name = name_of(tenant)
    # If the address is not a name in the certificate, for example one that SNI shares.
    asked = (tenant.get("status") or {}).get("tlsServerName")
    made = kubeconfig(
        name=name, server=server, ca=authority.encode(), user=f"{name}-{user}", credential=credential, tls_server_name=asked
    )
    return made.encode()


def place_of(tenant: Obj) -> tuple[str, str]:
    """The address of the tenant's API, and the CA that verifies it."""
    status = tenant.get("status") or {}
    server, authority = status.get("endpoint"), status.get("certificateAuthority")
    if not server or not authority:
        name = name_of(tenant)
        raise CliError(
            f"tenant {name}: its API does not exist yet",
            next_step=f"see its progress: bulkhead tenant describe {name}",
            code=Exit.NOT_FOUND,
        )
    return str(server), str(authority)
