"""Saves what may explain a failure: tenants with their conditions, events, pods and logs, in one folder for each test.

Collecting never fails a test and never hides its error. If something cannot be read, the folder says so.
"""

import json
from collections.abc import Callable
from pathlib import Path

from e2e import commands, machine, names
from e2e.api import Api, ApiError, UnreachableError

FOLDER = Path("build/e2e/failures")
TAIL = "--tail=400"


def collect(name: str, host: Api, error: str) -> Path:
    """Write everything that may explain a failure; returns the folder."""
    folder = FOLDER / "".join(sign if sign.isalnum() or sign in "-_" else "_" for sign in name)[:120]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "error.txt").write_text(error)
    for kind in ("Tenant", "Event", "Pod", "Node", "ServiceCIDR"):
        _keep(folder / f"{kind.lower()}s.json", lambda kind=kind: json.dumps(host.list(kind), indent=1))  # type: ignore[misc]
    namespaces = [names.SYSTEM_NAMESPACE]
    try:
        namespaces += [names.plane_namespace(item["metadata"]["name"]) for item in host.list("Tenant")]
        pods = [(space, pod["metadata"]["name"]) for space in namespaces for pod in host.list("Pod", space)]
    except (ApiError, UnreachableError) as exc:
        (folder / "unreachable.txt").write_text(str(exc))
        return folder
    for space, pod in pods:
        _keep(folder / f"{space}_{pod}.log", lambda space=space, pod=pod: _log(space, pod))  # type: ignore[misc]
    return folder


def _log(namespace: str, pod: str) -> str:
    flags = ("--all-containers", "--prefix", TAIL)
    return commands.kubectl(machine.KUBECONFIG, "-n", namespace, "logs", pod, *flags, seconds=20, check=False).text


def _keep(path: Path, read: Callable[[], str]) -> None:
    try:
        path.write_text(read())
    except (ApiError, UnreachableError, commands.CommandError, OSError) as exc:
        path.with_suffix(".missing").write_text(str(exc))
