"""The plugin that kubectl calls for credentials (`client.authentication.k8s.io/v1`).

It prints one ExecCredential on stdout, and everything else on stderr.

kubectl ──exec──> bulkhead credential certificate TENANT --kubeconfig HOST ──> certificate and key ──> ExecCredential
kubectl ──exec──> bulkhead credential token TENANT --issuer-url URL --client-id ID ──> ID token ──> ExecCredential
"""

import argparse
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workstation.cli.arguments import Host, add_host, add_tenant, host_of
from workstation.cli.credentials.arguments import SignIn, add_issuer, issuer_of, sign_in_of
from workstation.cli.credentials.provider import Issuer
from workstation.cli.failures import CliError, Exit
from workstation.cli.parsing import Parser


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """`credential certificate TENANT`."""

    host: Host
    tenant: str


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """`credential token TENANT`."""

    tenant: str
    issuer: Issuer
    sign_in: SignIn


def add_arguments(parser: Parser) -> None:
    """`credential certificate | token`: called by kubeconfigs, not by people, so the list of commands does not show it."""
    parser.description = "Print a credential for kubectl (client-go credential plugin)."
    kinds = parser.actions("KIND")
    by_host = kinds.add_parser("certificate", description="Print a certificate for an hour, for admins of the host.")
    add_host(by_host)
    add_tenant(by_host)
    by_host.does(lambda options: CertificateRequest(host_of(options), options.tenant), certificate)

    by_issuer = kinds.add_parser("token", description="Print an ID token of an identity provider.")
    add_host(by_issuer)
    add_tenant(by_issuer)
    add_issuer(by_issuer)
    by_issuer.does(_token_request, token)


def _token_request(options: argparse.Namespace) -> TokenRequest:
    issuer = issuer_of(options)
    if issuer is None:
        raise CliError(
            "--issuer-url and --client-id are missing", next_step="fetch the kubeconfig again: bulkhead login", code=Exit.USAGE
        )
    return TokenRequest(options.tenant, issuer, sign_in_of(options, options.redirect_port))


def certificate(request: CertificateRequest) -> int:
    """`bulkhead credential certificate TENANT`."""
    from workstation.cli.credentials import certificate as certificates  # noqa: PLC0415

    found = certificates.for_plugin(request.host, request.tenant)
    return _print({"clientCertificateData": found.certificate, "clientKeyData": found.key}, found.ends - 60)


def token(request: TokenRequest) -> int:
    """`bulkhead credential token TENANT`."""
    from workstation.cli.credentials import token as tokens  # noqa: PLC0415

    found = tokens.for_plugin(request.issuer, request.tenant, request.sign_in)
    return _print({"token": found.token}, found.ends - 15)


def _print(status: dict[str, Any], ends: float) -> int:
    """The expiration that kubectl is told: a little before the credential expires, so that kubectl asks again in time."""
    moment = datetime.fromtimestamp(ends, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status | {"expirationTimestamp": moment},
    }
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    return Exit.DONE
