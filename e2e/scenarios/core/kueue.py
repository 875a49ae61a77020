"""Kueue in a tenant's cluster, as its admin installs it: with its own chart, webhooks, and certificates that it creates itself.

The manager is built from Kueue's module and imported into the host as an image, because these tests use no registry. The chart
is the one in the module.
"""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from e2e import commands
from e2e.api import Obj
from e2e.names import GPU
from workstation.hostcluster import binaries
from workstation.hostcluster.component import RUN_DIR
from workstation.hostcluster.images import build

COMPONENT: Final = "kueue"
HOW_TO_BUILD: Final = f"python -m workstation.hostcluster.binaries {COMPONENT}"
NAMESPACE: Final = "kueue-system"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_REPOSITORY: Final = "docker.io/e2e/kueue"
_API: Final = "kueue.x-k8s.io/v1beta2"
_MODULE: Final = "sigs.k8s.io/kueue"
# Kueue's default requests half a core, which the one real node of the embedded host needs for other pods.
_VALUES: Final = {
    "controllerManager.manager.image.repository": _REPOSITORY,
    "controllerManager.manager.image.pullPolicy": "IfNotPresent",
    "controllerManager.manager.resources.requests.cpu": "50m",
    "controllerManager.manager.resources.requests.memory": "128Mi",
}


def is_built() -> bool:
    """Whether this machine has built the manager before; a build takes ten minutes on two cores."""
    return binaries.is_there(COMPONENT)


def import_image(note: Callable[[str], None]) -> None:
    """Build the image of the manager, or use the cached one, and import it on the embedded host."""
    shop = build.Workshop(binaries.cache_dir() / "images", binaries.ensure, build.PROJECT)
    image = f"{_REPOSITORY}:{binaries.version(COMPONENT)}"
    path = build.image_file(shop, build.one_program(shop, image, shop.binaries(COMPONENT)["kueue"], "manager"))
    note(f"importing {path.name}")
    ctr, socket = commands.tool("containerd", "ctr"), str(RUN_DIR / "containerd" / "containerd.sock")
    commands.run([ctr, "-a", socket, "-n", "k8s.io", "images", "import", str(path)], seconds=120)


def install(kubeconfig: Path) -> None:
    """Install Kueue and wait until its manager is ready, which waits until its certificate is mounted into its pod."""
    values = _VALUES | {"controllerManager.manager.image.tag": binaries.version(COMPONENT)}
    arguments = ["install", "kueue", str(_source() / "charts" / "kueue"), "--namespace", NAMESPACE, "--create-namespace"]
    for name, value in values.items():
        arguments += ["--set", f"{name}={value}"]
    commands.helm(kubeconfig, *arguments, "--wait", "--timeout", "300s", seconds=330)


def queue(name: str, namespace: str, gpus: int, nodes: Mapping[str, str]) -> list[Obj]:
    """A queue of a namespace that admits this number of GPUs at a time, and sends its work to nodes with these labels."""
    resources = [{"name": each, "nominalQuota": most} for each, most in (("cpu", "4"), ("memory", "4Gi"), (GPU, str(gpus)))]
    group = {"coveredResources": ["cpu", "memory", GPU], "flavors": [{"name": name, "resources": resources}]}
    return [
        {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": {"nodeLabels": dict(nodes)}},
        {
            "apiVersion": _API,
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": _API,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterQueue": name},
        },
    ]


def _source() -> Path:
    """The folder of Kueue's module; fetched once by Go."""
    command = ["go", "mod", "download", "-json", f"{_MODULE}@{binaries.version(COMPONENT)}"]
    with tempfile.TemporaryDirectory() as elsewhere:
        environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"}
        found = commands.run(["env", "-C", elsewhere, *command], seconds=300, environment=environment).out
    return Path(json.loads(found)["Dir"])
