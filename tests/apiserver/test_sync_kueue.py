"""Kueue inside a plane, the real one, next to real API servers.

It takes ten minutes to build, so these tests are skipped unless it was built by:

    python -m workstation.hostcluster.binaries kueue

Its webhooks are left out: the test itself writes what they would write on Jobs and pods, suspension and gate. With webhooks it
runs on the embedded host (`e2e/scenarios/core/test_kueue.py`).
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import JOBS, PODS
from tests.kit.ports import free_port
from tests.kit.servers import Pair
from tests.kit.syncerbed import SyncerBed, until
from tests.ways.implementations import manifests
from workstation.hostcluster import binaries

HOW_TO_BUILD: Final = "python -m workstation.hostcluster.binaries kueue"
pytestmark = [
    pytest.mark.kueue,
    pytest.mark.skipif(not binaries.is_there("kueue"), reason=f"Kueue is not built here: {HOW_TO_BUILD}"),
]

_API: Final = ("kueue.x-k8s.io", "v1beta2")
CRDS: Final = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
FLAVORS: Final = Resource(*_API, "resourceflavors", "ResourceFlavor", namespaced=False)
CLUSTER_QUEUES: Final = Resource(*_API, "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUES: Final = Resource(*_API, "localqueues", "LocalQueue", namespaced=True)
GPU: Final = "nvidia.com/gpu"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
SPOT: Final = {"example.com/flavor": "spot"}


@pytest.fixture
async def definitions(plane_client: Client) -> None:
    for each in manifests("kueue", "config/components/crd/bases"):
        await plane_client.apply(CRDS, each)

    async def served() -> bool:
        try:
            found = json.loads(await plane_client.get_raw(f"/apis/{'/'.join(_API)}"))
        except KubeError:
            return False
        return {"workloads", "localqueues", "clusterqueues", "resourceflavors"} <= {each["name"] for each in found["resources"]}

    await until(served, "the plane serves Kueue's kinds")


@pytest.fixture
def kueue(definitions: None, apiservers: Pair, tmp_path: Path) -> Iterator[None]:
    """Its manager beside the plane, and the controller of Jobs."""
    plane = apiservers.plane
    plane.start_controllers("job-controller")
    for name, of in (("tls.crt", "serving.crt"), ("tls.key", "serving.key")):
        (tmp_path / name).write_bytes((plane.folder / of).read_bytes())
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
        "metrics": {"bindAddress": f"127.0.0.1:{free_port()}"},
        "webhook": {"port": free_port(), "certDir": str(tmp_path)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job", "pod"]},
    }
    (tmp_path / "kueue.json").write_text(json.dumps(config))
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "KUBECONFIG": str(plane.folder / "components.kubeconfig"),
        "POD_NAMESPACE": "kube-system",
    }
    flags = (
        f"--config={tmp_path / 'kueue.json'} --visibility-server-port={free_port()} --feature-gates=VisibilityOnDemand=false"
    )
    program = binaries.ensure("kueue")["kueue"]
    # It reads the certificate of its metrics in /etc, so it is given one of its own: that takes root.
    certs = "/etc/kueue/metrics/certs"
    script = f"mount -t tmpfs none /etc && mkdir -p {certs} && cp {tmp_path}/tls.* {certs} && exec {program} {flags}"
    command = ["unshare", "--mount", "sh", "-c", script]
    with (
        (tmp_path / "kueue.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=environment) as manager,
    ):
        yield
        manager.kill()
    print((tmp_path / "kueue.log").read_text()[-6000:])  # noqa: T201 -- what Kueue says of a failure
    plane.kill("kube-controller-manager")


async def queue(bed: SyncerBed, gpus: int) -> None:
    name = bed.tenant
    await bed.plane.create(FLAVORS, _typed(FLAVORS) | {"metadata": {"name": name}, "spec": {"nodeLabels": SPOT}})
    resources = [{"name": each, "nominalQuota": amount} for each, amount in (("cpu", "100"), (GPU, str(gpus)))]
    group = {"coveredResources": ["cpu", GPU], "flavors": [{"name": name, "resources": resources}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    await bed.plane.create(CLUSTER_QUEUES, _typed(CLUSTER_QUEUES) | {"metadata": {"name": name}, "spec": spec})
    local = {"metadata": {"name": "mine"}, "spec": {"clusterQueue": name}}
    await bed.plane.create(LOCAL_QUEUES, _typed(LOCAL_QUEUES) | local, bed.space)


def _typed(r: Resource) -> Obj:
    return {"apiVersion": r.api_version, "kind": r.kind}


def job(name: str, pods: int) -> Obj:
    resources = {"requests": {"cpu": "1"}, "limits": {GPU: "1"}}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1.36", "resources": resources}]}
    template = {"metadata": {"labels": {"of": name}}, "spec": spec}
    return {
        "metadata": {"name": name, "labels": {QUEUE: "mine"}},
        "spec": {"parallelism": pods, "completions": pods, "suspend": True, "template": template},
    }


async def hosts(bed: SyncerBed, count: int) -> list[Obj]:
    async def there() -> list[Obj]:
        found = [each for each in await bed.host_pods() if each["status"].get("phase") != "Succeeded"]
        return found if len(found) == count else []

    found: list[Obj] = await until(there, f"{count} pods on the host")
    return found


@pytest.mark.usefixtures("kueue")
async def test_item_44_jobs_that_kueue_queues_in_a_plane_run_one_after_the_other(bed: SyncerBed) -> None:
    await queue(bed, 2)
    for name in ("first", "second"):
        await bed.plane.create(JOBS, job(name, 2), bed.space)
        made = await hosts(bed, 2)
    for name in ("first", "second"):
        for host in await hosts(bed, 2):
            assert host["spec"]["nodeSelector"]["example.com/flavor"] == "spot", "the flavor that Kueue chose"
            await bed.bind(host)
            await bed.run(host)
            await bed.run(host, "Succeeded")

        async def complete(name: str = name) -> Any:
            return (await bed.plane.get(JOBS, name, bed.space))["status"].get("succeeded") == 2

        await until(complete, f"{name} is complete")
    assert len(made) == 2, "the second one waited"


@pytest.mark.usefixtures("kueue")
async def test_item_44_a_single_pod_that_kueue_lets_go_runs_where_kueue_wants_it(bed: SyncerBed) -> None:
    await queue(bed, 1)
    for name in ("first", "second"):
        pod = bed.gpu_pod(name)
        pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
        pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
        pod["metadata"] |= {
            "labels": {QUEUE: "mine", "kueue.x-k8s.io/managed": "true"},
            "finalizers": ["kueue.x-k8s.io/managed"],
        }
        await bed.create(pod)

        async def free() -> Obj | None:
            found = await bed.mirror("first")
            return found if found is not None and not found["spec"].get("schedulingGates") else None

        host: Obj = await until(free, "the first is let go")
    assert host["spec"]["nodeSelector"]["example.com/flavor"] == "spot"
    assert len((await bed.mirrored("second"))["spec"]["schedulingGates"]) == 1
    await bed.bind(host)
    await bed.run(host)
    await bed.run(host, "Succeeded")

    async def second() -> bool:
        return not ((await bed.mirror("second")) or {"spec": {"schedulingGates": [1]}})["spec"].get("schedulingGates")

    await until(second, "the second is let go")
    assert (await bed.plane.get(PODS, "first", bed.space))["status"]["phase"] == "Succeeded"
