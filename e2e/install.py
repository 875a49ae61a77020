"""Bulkhead on the embedded host: images imported, chart installed by real helm, the example class applied. Idempotent.

host up (builds and imports the images that changed) -> helm upgrade --install --wait -> pods of a former image replaced
-> TenantClass
"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import yaml

from e2e import commands, machine, names
from e2e.api import Api, Obj
from e2e.names import GPU
from e2e.poll import NotYetError, until
from workstation.hostcluster.component import NODE_ADDRESS, POD_RANGE
from workstation.hostcluster.storage.volumes import IMMEDIATE_CLASS

CHART = Path("charts/bulkhead")
EXAMPLES = Path("examples")
RELEASE = "bulkhead"
# The only address of the host's API server: pods in the chart's namespace reach no other address except planes.
HOST_API = {"networkPolicy.hostAPI[0].cidr": f"{NODE_ADDRESS}/32", "networkPolicy.hostAPI[0].port": "6443"}
_IMPORTED = machine.DATA / "containerd" / "imported.json"  # written by the host whenever it imports an image

# Some simulated nodes have these slices in addition to GPUs; the classes of most tests do not offer them.
SLICES = "nvidia.com/mig-1g.10gb"

Note = Callable[[str], None]


def ensure_installed(note: Note, *flags: str, **values: str) -> Api:
    """Everything up to and including the example TenantClass; quick if all of it is there already.

    `flags` are further flags of `host up`, `values` are further values of the chart.
    """
    machine.bring_up(lambda line: note(f"    {line}"), *flags)
    host = machine.host_api()
    forget_interrupted(host, note)
    install_chart(note, **values)
    replace_outdated(host, note)
    apply_class(host)
    return host


def forget_interrupted(host: Api, note: Note) -> None:
    """Delete a helm release that an interrupted helm left pending; helm installs nothing over a pending release.

    Only these tests install on the embedded host, so no other helm can still be working on the release. The next upgrade
    corrects whatever the interrupted one applied.
    """
    for state in ("pending-install", "pending-upgrade", "pending-rollback"):
        for record in host.list("Secret", names.SYSTEM_NAMESPACE, labels=f"owner=helm,name={RELEASE},status={state}"):
            note(f"deleting the record of an interrupted installation ({record['metadata']['name']})")
            host.delete("Secret", record["metadata"]["name"], names.SYSTEM_NAMESPACE)


def install_chart(note: Note, **values: str) -> None:
    note("helm upgrade --install")
    arguments = ["upgrade", "--install", RELEASE, str(CHART), "--namespace", names.SYSTEM_NAMESPACE, "--create-namespace"]
    # Planes run on the one real node, so their volumes need not wait for the scheduler's choice (docs/decisions/0006).
    # The nodes have no NFS client, so a directory of a node takes the place of a volume that tenants share.
    own = {"storageClass": IMMEDIATE_CLASS, "podNetworks": f"{{{POD_RANGE}}}", "shares.volumeTypes": "{nfs,csi,local}"}
    own |= {"gpuResources": f"{{{GPU},{SLICES}}}"}
    for name, value in {**own, **HOST_API, **values}.items():
        arguments += ["--set", f"{name}={value}"]
    commands.helm(machine.KUBECONFIG, *arguments, "--wait", "--timeout", "450s", seconds=180)


def replace_outdated(host: Api, note: Note) -> None:
    """A new image has the old name here, so pods that run an older one are replaced: first the controller, then the syncers."""
    imported = _IMPORTED.stat().st_mtime if _IMPORTED.exists() else 0.0
    running = [("bulkhead-system", "")] + [
        (names.plane_namespace(item["metadata"]["name"]), "bulkhead.dev/component=syncer") for item in host.list("Tenant")
    ]
    outdated = [
        (namespace, pod["metadata"]["name"], pod["metadata"]["uid"])
        for namespace, labels in running
        for pod in host.list("Pod", namespace, labels=labels)
        if _started(pod) < imported - 1
    ]
    if outdated:
        note(f"replacing {len(outdated)} pods of a former image")
    for namespace, name, _ in outdated:
        host.delete("Pod", name, namespace)
    # A Deployment's status describes the former pods until its controller has seen that they are gone.
    for namespace, name, uid in outdated:
        until(f"the former pod {name} to be gone", lambda at=(namespace, name, uid): _gone(host, *at), seconds=60)  # type: ignore[misc]
    until("the controller to be back", lambda: _deployments_available(host), seconds=60)


def _gone(host: Api, namespace: str, name: str, uid: str) -> None:
    found = host.find("Pod", name, namespace)
    if found is not None and found["metadata"]["uid"] == uid:
        raise NotYetError(f"pod {name} is still there")


def _started(pod: Obj) -> float:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()


def apply_class(host: Api) -> None:
    """The example TenantClass, which all tests use."""
    for obj in example_objects():
        if obj["kind"] == "TenantClass":
            host.apply(obj)


def example_objects() -> list[Obj]:
    """All documents of the example manifests, in the order of their files, except those that need the Slurm images."""
    found: list[Obj] = []
    for path in sorted(EXAMPLES.glob("*.yaml")):
        found += [item for item in yaml.safe_load_all(path.read_text()) if item and not _wants_slurm(item)]
    return found


def _wants_slurm(obj: Obj) -> bool:
    scheduling = obj.get("spec", {}).get("scheduling") or {}
    return obj["kind"] == "Tenant" and (scheduling.get("mode") == "Slurm" or "slurm" in scheduling)


def _deployments_available(host: Api) -> None:
    for item in host.list("Deployment", names.SYSTEM_NAMESPACE):
        if item.get("status", {}).get("availableReplicas", 0) < item["spec"].get("replicas", 1):
            raise NotYetError(f"deployment {item['metadata']['name']} is not available")
