"""Fixtures: the older Bulkhead with tenants at work, one of them in Slurm mode, and the same after `helm upgrade` to this tree.

older installed ──> tenants Ready, pods running ──> [seen] ──> probes begin ──> helm upgrade ──> syncers replaced
──> every tenant reconciled twice more ──> [seen again] ──> probes end
"""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e import commands, install, machine, names, tenants, workloads
from e2e.api import Api, ApiError, Obj, UnreachableError
from e2e.poll import NotYetError, until
from e2e.progress import stopwatch
from e2e.scenarios.upgrade import former, queued, seen
from e2e.scenarios.upgrade.queued import Queued
from e2e.slurm import images
from e2e.tenants import Tenant
from workstation.hostcluster.images import build

WANTED = ("up-one", "up-two")
EVERYBODY = (*WANTED, queued.NAME)
OWN = build.BULKHEAD.rpartition("/")[2]
# Often enough that a test sees later reconciles after the upgrade, and not only the first.
OFTEN = {"controller.resyncSeconds": "10"}
# The older release has only this name for it, and this release still has it (docs/upgrading.md).
_RECONCILES = "bulkhead_controller_passes_total{"


@dataclass(slots=True)
class Probe:
    """A user who calls the tenant's API all the time."""

    kubeconfig: Path
    failures: list[str] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)  # seconds without an answer, for each time that there had been one before
    answers: int = 0
    known: bool = True  # at the last call

    def run(self, stop: threading.Event) -> None:
        api = Api(self.kubeconfig)
        since = 0.0
        while not stop.wait(0.3):
            try:
                # A call that any authenticated user may make: the older certificate is still accepted, but has no rights.
                self.known = bool(tenants.who(api))
                if self.known:
                    self.answers += 1
                    since = 0.0
                else:
                    # Shortly after its start an API server does not know any user's rights.
                    self.failures.append("refused")
                    since = self._away(since)
            except (ApiError, UnreachableError) as error:
                self.failures.append(str(error)[:300])
                since = self._away(since)

    def _away(self, since: float) -> float:
        """Count one more call without an answer. Returns the time of the first of them."""
        now = time.monotonic()
        if not since:
            self.gaps.append(0.0)
            return now
        self.gaps[-1] = now - since
        return since


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The installation after its upgrade, and what was seen before and after."""

    host: Api
    tenants: Mapping[str, Tenant]
    before: Mapping[str, seen.Running]
    after: Mapping[str, seen.Running]
    definitions: Mapping[str, str]  # UIDs before the upgrade
    probes: Mapping[str, Probe]
    slurm: Queued

    def running(self) -> dict[str, seen.Running]:
        """The running pods of these tenants, once the pods that a test created and deleted are gone."""

        def probe() -> dict[str, seen.Running]:
            found = seen.running(self.host, EVERYBODY)
            workloads.expect(len(found) == len(self.before), ", ".join(sorted(item.name for item in found.values())))
            return found

        return until("only the former pods to run", probe, seconds=60)


@pytest.fixture(scope="session")
def upgraded() -> Iterator[Upgraded]:
    """Upgraded once for all tests here."""
    note = stopwatch()
    images.ensure(note)
    host = machine.host_api()
    former.checked_out()
    for name in EVERYBODY:
        if host.find("Namespace", names.plane_namespace(name)):
            tenants.remove(host, name)
    former.wipe(host, note)
    former.installed(note)
    made = _tenants(host)
    slurm = queued.made(host)
    note(f"tenants {', '.join(EVERYBODY)} are at work")
    definitions = {
        definition: host.get("CustomResourceDefinition", definition)["metadata"]["uid"] for definition in DEFINITIONS
    }
    before = seen.running(host, EVERYBODY)
    probes = {tenant.name: Probe(tenant.kubeconfig) for tenant in (*made.values(), slurm.cluster.tenant)}
    stop = threading.Event()
    threads = [threading.Thread(target=probe.run, args=(stop,), daemon=True) for probe in probes.values()]
    for thread in threads:
        thread.start()
    install.install_chart(note, **OFTEN)
    settle(host, list(EVERYBODY))
    note("reconciled by the new controller")
    stop.set()
    for thread in threads:
        thread.join(30)
    after = seen.running(host, EVERYBODY)
    made = {name: tenants.open_tenant(name) for name in made}
    slurm = slurm.through(tenants.open_tenant(queued.NAME))
    yield Upgraded(host, made, before, after, definitions, probes, slurm)
    for name in EVERYBODY:
        host.delete("Tenant", name)


DEFINITIONS = ("tenants.bulkhead.dev", "tenantclasses.bulkhead.dev")


def _tenants(host: Api) -> dict[str, Tenant]:
    """Tenants created by the older controller, with the kubeconfigs of the older command line."""
    for name in WANTED:
        host.create(tenants.manifest(name, gpus=4))
    tenants.wait_ready(host, WANTED, seconds=150)
    made = {}
    for name in WANTED:
        made[name] = former.opened(name)
        _work(made[name])
    for tenant in made.values():
        for name in ("claimed", "accelerated"):
            workloads.wait_running(tenant.api, name)
        until(f"the pods of {tenant.name}", lambda tenant=tenant: _all_run(tenant), seconds=90)  # type: ignore[misc]
    return made


def _work(tenant: Tenant) -> None:
    """Pods of a controller, with a volume, with a GPU, with a ConfigMap, and some on a simulated node."""
    claim: Obj = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}}
    given = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "told", "namespace": "default"}, "data": {"a": "b"}}
    tenant.api.create(given)
    tenant.api.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": claim,
        }
    )
    mounted = {"data": {"persistentVolumeClaim": {"claimName": "data"}}, "told": {"configMap": {"name": "told"}}}
    spec = workloads.pod_spec(volumes=[{"name": name} | source for name, source in mounted.items()])
    spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}, {"name": "told", "mountPath": "/told"}]
    tenant.api.create(workloads.pod("claimed", spec))
    tenant.api.create(workloads.pod("accelerated", workloads.pod_spec(gpus=1)))
    tenant.api.create(workloads.deployment("web", 2, workloads.pod_spec(workloads.web_server("here"), ports=[8080])))
    tenant.api.create(workloads.deployment("far", 2, workloads.pod_spec(where=workloads.SIMULATED)))
    tenant.api.create(workloads.service("web", "web", 8080))


def _all_run(tenant: Tenant) -> None:
    for name, wanted in (("web", 2), ("far", 2)):
        ready = tenant.api.get("Deployment", name, "default").get("status", {}).get("readyReplicas", 0)
        workloads.expect(ready == wanted, f"{name}: {ready} of {wanted}")


def settle(host: Api, wanted: list[str]) -> None:
    """Wait until every syncer is this tree's and works, and the controller has reconciled every tenant twice since."""
    for name in wanted:
        until(f"the syncer of {name}", lambda name=name: _syncs(host, name), seconds=120)  # type: ignore[misc]
        until(f"the plane of {name}", lambda name=name: _rolled_out(host, name), seconds=120)  # type: ignore[misc]
    tenants.wait_ready(host, wanted, seconds=60)
    goal = reconciles() + 2 * len(wanted)
    until("two more reconciles of each tenant", lambda: _passed(goal), seconds=90, interval=1.0)
    for name in wanted:
        # It is replaced after its plane, if it is older than the API server.
        until(f"the DNS of {name}", lambda name=name: _resolves(host, name), seconds=60)  # type: ignore[misc]


def _syncs(host: Api, name: str) -> None:
    deployment = host.get("Deployment", "syncer", names.plane_namespace(name))
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    status = deployment.get("status", {})
    current = status.get("observedGeneration") == deployment["metadata"]["generation"]
    workloads.expect(image.endswith(f"/{OWN}"), f"its image is {image}")
    workloads.expect(current and status.get("updatedReplicas") == status.get("readyReplicas") == 1, str(status))


def _rolled_out(host: Api, name: str) -> None:
    plane = host.get("StatefulSet", "plane", names.plane_namespace(name))
    status = plane.get("status", {})
    current = status.get("observedGeneration") == plane["metadata"]["generation"]
    wanted = plane["spec"]["replicas"]
    workloads.expect(current and status.get("updatedReplicas") == status.get("readyReplicas") == wanted, str(status))


def _resolves(host: Api, name: str) -> None:
    deployment = host.get("Deployment", "dns", names.plane_namespace(name))
    status = deployment.get("status", {})
    current = status.get("observedGeneration") == deployment["metadata"]["generation"]
    counts = [status.get(item) for item in ("replicas", "updatedReplicas", "readyReplicas")]
    workloads.expect(current and counts == [1, 1, 1], str(status))


def reconciles() -> float:
    """How many reconciles the controller has counted."""
    for pod in machine.host_api().list("Pod", names.SYSTEM_NAMESPACE, labels="app.kubernetes.io/component=controller"):
        if not pod["metadata"].get("deletionTimestamp"):
            path = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/pods/{pod['metadata']['name']}:8080/proxy/metrics"
            text = commands.kubectl(machine.KUBECONFIG, "get", "--raw", path).out
            return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(_RECONCILES))
    raise NotYetError("no controller")


def _passed(goal: float) -> None:
    workloads.expect((now := reconciles()) >= goal, f"{now:.0f} of {goal:.0f}")
