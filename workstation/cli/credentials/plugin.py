"""What kubectl calls for credentials (`client.authentication.k8s.io/v1`): one ExecCredential on stdout, the rest on stderr.

kubectl ──exec──> bulkhead credential certificate TENANT --kubeconfig HOST ──> certificate and key ──> ExecCredential
kubectl ──exec──> bulkhead credential token TENANT --issuer-url URL --client-id ID ──> ID token ──> ExecCredential
"""

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any

from workstation.cli.failures import Exit


def certificate(options: argparse.Namespace) -> int:
    """`bulkhead credential certificate TENANT`."""
    from workstation.cli.credentials import certificate as certificates  # noqa: PLC0415

    found = certificates.for_plugin(options)
    return _print({"clientCertificateData": found.certificate, "clientKeyData": found.key}, found.ends - 60)


def token(options: argparse.Namespace) -> int:
    """`bulkhead credential token TENANT`."""
    from workstation.cli.credentials import token as tokens  # noqa: PLC0415

    found = tokens.for_plugin(options)
    return _print({"token": found.token}, found.ends - 15)


def _print(status: dict[str, Any], ends: float) -> int:
    """Kubectl asks again after the expiration: a little before the credential really ends."""
    moment = datetime.fromtimestamp(ends, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status | {"expirationTimestamp": moment},
    }
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    return Exit.DONE
