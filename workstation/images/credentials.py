"""Credentials for a push: a user with a password, or those that docker, podman or helm keep in their `config.json`.

It reads one file and runs nothing. If the file names a credential helper, the helper is not called, and the error says so.
"""

import base64
import binascii
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_FILE_LIMIT_BYTES: Final = 1 << 20
_HUB: Final = ("docker.io", "index.docker.io")


class CredentialsError(Exception):
    """Credentials cannot be read; the text names the file."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a password; neither is ever printed."""

    user: str
    password: str = field(repr=False)

    def basic(self) -> str:
        """The value of the Authorization header."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def default_file(environment: Mapping[str, str] = os.environ) -> Path:
    """The paths where docker, podman and helm look."""
    if given := environment.get("REGISTRY_AUTH_FILE"):
        return Path(given)
    return Path(environment.get("DOCKER_CONFIG") or Path(environment.get("HOME", "/root")) / ".docker") / "config.json"


def from_file(path: Path, host: str) -> Credentials | None:
    """The credentials in a `config.json` for a registry; None if there are none, or no such file."""
    try:
        with path.open("rb") as stream:
            content = stream.read(_FILE_LIMIT_BYTES + 1)
        document = json.loads(content) if len(content) <= _FILE_LIMIT_BYTES else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise CredentialsError(f"{path}: {error}") from error
    if not isinstance(document, dict) or not isinstance(document.get("auths", {}), dict):
        raise CredentialsError(f"{path}: must be a docker config.json")
    found = _entry(document.get("auths", {}), host)
    if found is not None and (credentials := _read(found, path, host)):
        return credentials
    if document.get("credsStore") or host in (document.get("credHelpers") or {}):
        raise CredentialsError(f"{path} keeps the password of {host} in a credential helper, which this command does not call")
    return None


def _entry(entries: Mapping[str, Any], host: str) -> Mapping[str, Any] | None:
    hosts = _HUB if host in _HUB else (host,)
    names = [spelt for name in hosts for spelt in (name, f"https://{name}", f"https://{name}/", f"https://{name}/v1/")]
    for name in names:
        if isinstance(entries.get(name), dict):
            return dict(entries[name])
    return None


def _read(entry: Mapping[str, Any], path: Path, host: str) -> Credentials | None:
    if isinstance(entry.get("username"), str) and isinstance(entry.get("password"), str):
        return Credentials(entry["username"], entry["password"])
    if not entry.get("auth"):
        return None
    try:
        user, separator, password = base64.b64decode(str(entry["auth"]), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise CredentialsError(f"{path}: auth of {host} must be base64 of user:password") from error
    if not separator:
        raise CredentialsError(f"{path}: auth of {host} must be base64 of user:password")
    return Credentials(user, password)
