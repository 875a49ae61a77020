"""Kubeconfig files as text (JSON, which is YAML): server, user, and certificate or credential plugin."""

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Credential:
    """A client certificate and its key, either as bytes or as paths of files that are reloaded when they change."""

    certificate: bytes | str
    key: bytes | str


@dataclass(frozen=True, slots=True)
class Plugin:
    """A command that prints an ExecCredential when it is asked; it may talk to the person at the terminal."""

    command: str
    arguments: tuple[str, ...]
    hint: str  # shown to users who do not have the command


def kubeconfig(
    *, name: str, server: str, ca: bytes | str, user: str, credential: Credential | Plugin, tls_server_name: str | None = None
) -> str:
    """One cluster, one user, one context; `tls_server_name` where the certificate names the server by another name."""
    cluster: dict[str, Any] = {"server": server, **_entry("certificate-authority", ca)}
    if tls_server_name:
        cluster["tls-server-name"] = tls_server_name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": _user(credential)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": "default"}}],
        "current-context": name,
    }
    return json.dumps(document, indent=1) + "\n"


def _user(credential: Credential | Plugin) -> dict[str, Any]:
    if isinstance(credential, Credential):
        return {**_entry("client-certificate", credential.certificate), **_entry("client-key", credential.key)}
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": credential.command,
        "args": list(credential.arguments),
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": False,
        "installHint": credential.hint,
    }
    return {"exec": plugin}


def _entry(field: str, value: bytes | str) -> dict[str, str]:
    if isinstance(value, bytes):
        return {f"{field}-data": b64encode(value).decode()}
    return {field: value}
