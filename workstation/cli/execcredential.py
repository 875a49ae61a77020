"""Credentials from an `exec` entry of the admin's own kubeconfig, as clouds use them (client-go credential plugins).

Only the command line runs plugins, and only from the kubeconfig of the user who calls it, which kubectl would trust as well.
The library's `KubeConfig` refuses `exec`, and a tenant's kubeconfig is never passed to this module.

    kubeconfig ──> exec of the chosen user ──> run it ──> ExecCredential ──> the same kubeconfig with a token or certificate
"""

import base64
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bulkhead.api.untrusted import mapping
from workstation.cli.failures import CliError

_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_SECONDS = 120.0  # the user may have to log in
_SIGN_IN = "sign in with it, until `kubectl get nodes` answers; or give a kubeconfig with a token or certificate"


def resolve(data: bytes, folder: Path, context: str | None, *, within: float | None = None) -> bytes:
    """The kubeconfig with the chosen user's `exec` replaced by the credential that it returns; unchanged if there is no `exec`.

    If `within` is given, the plugin has so many seconds to answer, and cannot ask the user anything.
    """
    found = ask(data, folder, context, within=within)
    return data if found is None else found.data


@dataclass(frozen=True, slots=True)
class Answered:
    """A kubeconfig with a plugin's credential, and when that ends as far as the plugin says."""

    data: bytes
    ends: datetime | None


def ask(data: bytes, folder: Path, context: str | None, *, within: float | None = None) -> Answered | None:
    """What `resolve` returns, and its end; None for a kubeconfig whose chosen user has no `exec`."""
    if b"exec" not in data:
        return None
    import yaml  # noqa: PLC0415 - slow to load

    try:
        document = yaml.safe_load(data)
        scope = _entry(document, "contexts", context or document["current-context"])["context"]
        user = _entry(document, "users", scope["user"])
        cluster = _entry(document, "clusters", scope["cluster"])["cluster"]
        plugin = user["user"].get("exec")
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, LookupError):
        return None  # broken in another way, which KubeConfig explains better
    if not isinstance(plugin, dict):
        return None
    status = _run(plugin, cluster, folder, within)
    user["user"] = _credentials(status, str(plugin.get("command")))
    return Answered(yaml.safe_dump(document).encode(), _end(status.get("expirationTimestamp")))


def _end(stamp: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(stamp))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _entry(document: Any, section: str, name: str) -> Any:
    for item in document[section]:
        if item["name"] == name:
            return item
    raise LookupError(name)


def _run(plugin: dict[str, Any], cluster: dict[str, Any], folder: Path, within: float | None) -> dict[str, Any]:
    command, version = str(plugin.get("command") or ""), plugin.get("apiVersion")
    if version not in _VERSIONS:
        raise CliError(f"kubeconfig: exec {command!r}: apiVersion must be one of {', '.join(_VERSIONS)}, not {version!r}")
    spec: dict[str, Any] = {"interactive": within is None and sys.stdin.isatty()}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = {key: value for key, value in cluster.items() if key in {"server", "certificate-authority-data"}}
    info = json.dumps({"apiVersion": version, "kind": "ExecCredential", "spec": spec})
    extra = {str(item["name"]): str(item["value"]) for item in plugin.get("env") or ()}
    # A command with a slash is relative to the kubeconfig; a bare name is looked up on PATH.
    program = str(folder / command) if os.sep in command else command
    try:
        done = subprocess.run(
            [program, *map(str, plugin.get("args") or ())],
            env=dict(os.environ) | extra | {"KUBERNETES_EXEC_INFO": info},
            stdin=None if within is None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if within is None else subprocess.DEVNULL,  # the user's: plugins write their prompts there
            timeout=_SECONDS if within is None else within,
            check=True,
        )
        status = json.loads(done.stdout)["status"]
    except FileNotFoundError as error:
        hint = str(plugin.get("installHint") or "").strip() or "install it, or give a kubeconfig with a token or certificate"
        raise CliError(f"kubeconfig: exec {command!r} is not installed", next_step=hint.splitlines()[0]) from error
    except subprocess.TimeoutExpired as error:
        raise CliError(
            f"kubeconfig: exec {command!r} gave no credentials within {within or _SECONDS:g} s", next_step=_SIGN_IN
        ) from error
    except subprocess.CalledProcessError as error:
        raise CliError(f"kubeconfig: exec {command!r} failed with exit code {error.returncode}", next_step=_SIGN_IN) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CliError(f"kubeconfig: exec {command!r} gave no ExecCredential: {error}") from error
    return dict(mapping(status))


def _credentials(status: dict[str, Any], command: str) -> dict[str, str]:
    """The user entry that contains the plugin's credential."""
    user: dict[str, str] = {}
    if status.get("token"):
        user["token"] = str(status["token"])
    if status.get("clientCertificateData") and status.get("clientKeyData"):
        user["client-certificate-data"] = base64.b64encode(str(status["clientCertificateData"]).encode()).decode()
        user["client-key-data"] = base64.b64encode(str(status["clientKeyData"]).encode()).decode()
    if not user:
        raise CliError(f"kubeconfig: exec {command!r} gave neither a token nor a certificate")
    return user
