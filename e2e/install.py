"""Bulkhead on the embedded host: images imported, chart installed by real helm, the example class applied. Idempotent.

host up -> images (only what changed) -> helm upgrade --install --wait -> pods of the old image replaced -> TenantClass
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml

from bulkhead.api import names
from bulkhead.hostcluster.images.build import ensure_images
from e2e import commands, machine
from e2e.api import Api, Obj
from e2e.poll import NotYetError, until

CHART = Path("charts/bulkhead")
EXAMPLES = Path("examples")
RELEASE = "bulkhead"
SOCKET = Path("/run/bulkhead/containerd/containerd.sock")
_IMPORTED = machine.DATA / "imported-images.json"
_OUTDATED = machine.DATA / "imported-images.outdated"  # there are pods of a former image until this is gone

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Progress:
    """Shows what the image builder reports."""

    note: Note

    def step(self, text: str) -> None:
        self.note(text)

    def detail(self, text: str) -> None:
        self.note(f"    {text}")

    def warn(self, text: str) -> None:
        self.note(f"    warning: {text}")


def ensure_installed(note: Note) -> Api:
    """Everything up to and with the example TenantClass; quick when all is there already."""
    if machine.bring_up(lambda line: note(f"    {line}")):
        note("embedded host is up")
    host = machine.host_api()
    import_images(note)
    install_chart(note)
    replace_outdated(host, note)
    apply_class(host)
    return host


def import_images(note: Note) -> bool:
    """Build and import the images that changed since the last import; True when Bulkhead's own is among them."""
    tars = ensure_images(_cache(), _Progress(note))
    known = json.loads(_IMPORTED.read_text()) if _IMPORTED.exists() else []
    present = commands.run([_ctr(), "-a", str(SOCKET), "-n", "k8s.io", "images", "list", "-q"], seconds=30).out
    fresh = [tar for tar in tars if tar.name not in known or "docker.io/bulkhead/bulkhead" not in present]
    for tar in fresh:
        note(f"importing {tar.name}")
        commands.run([_ctr(), "-a", str(SOCKET), "-n", "k8s.io", "images", "import", str(tar)], seconds=180)
    changed = any("bulkhead_bulkhead" in tar.name for tar in fresh)
    if changed:
        _OUTDATED.touch()
    staged = _IMPORTED.with_suffix(".new")
    staged.write_text(json.dumps([tar.name for tar in tars]))
    staged.rename(_IMPORTED)
    return changed


def install_chart(note: Note) -> None:
    note("helm upgrade --install")
    arguments = ["upgrade", "--install", RELEASE, str(CHART), "--namespace", names.SYSTEM_NAMESPACE, "--create-namespace"]
    commands.helm(machine.KUBECONFIG, *arguments, "--wait", "--timeout", "150s", seconds=180)


def replace_outdated(host: Api, note: Note) -> None:
    """A new image has the old name here, so pods that ran before it came are replaced: the controller, then the syncers."""
    if not _OUTDATED.exists():
        return
    note("replacing the controller and syncers of the former image")
    running = [("bulkhead-system", "")] + [
        (names.plane_namespace(item["metadata"]["name"]), "bulkhead.dev/component=syncer") for item in host.list("Tenant")
    ]
    for namespace, labels in running:
        for pod in host.list("Pod", namespace, labels=labels):
            if _started(pod) < _OUTDATED.stat().st_mtime:
                host.delete("Pod", pod["metadata"]["name"], namespace)
    until("the controller to be back", lambda: _deployments_available(host), seconds=60)
    _OUTDATED.unlink()


def _started(pod: Obj) -> float:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()


def apply_class(host: Api) -> None:
    """The example TenantClass, which all tests use."""
    for obj in example_objects():
        if obj["kind"] == "TenantClass":
            host.apply(obj)


def example_objects() -> list[Obj]:
    """All documents of the example manifests, in the order of their files."""
    found: list[Obj] = []
    for path in sorted(EXAMPLES.glob("*.yaml")):
        found += [item for item in yaml.safe_load_all(path.read_text()) if item]
    return found


def _deployments_available(host: Api) -> None:
    for item in host.list("Deployment", names.SYSTEM_NAMESPACE):
        if item.get("status", {}).get("availableReplicas", 0) < item["spec"].get("replicas", 1):
            raise NotYetError(f"deployment {item['metadata']['name']} is not available")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bulkhead"


def _ctr() -> str:
    return commands.tool("containerd", "ctr")
