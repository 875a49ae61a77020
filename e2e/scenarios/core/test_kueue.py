"""Jobs that Kueue queues in a tenant's own cluster: each runs on the host with its GPU when Kueue admits it, and not before.

Kueue is the real one, a pod of the tenant with its webhooks. It takes ten minutes to build, so these tests are skipped unless
it is already built.
"""

import json
import sys
from functools import cache

import pytest

from e2e import machine, workloads
from e2e.api import Api, Obj
from e2e.commands import kubectl
from e2e.fleet import Fleet
from e2e.poll import NotYetError, holds, until
from e2e.scenarios.core import kueue
from e2e.tenants import Tenant
from e2e.tenants import manifest as tenant_manifest
from e2e.workloads import expect

NAME = "e2e-kueue"
QUEUE = "mine"
DONE = "/run/done"
needs_kueue = pytest.mark.skipif(not kueue.is_built(), reason=f"Kueue is not built here: {kueue.HOW_TO_BUILD}")


@cache
def ahead(fleet: Fleet) -> Obj:
    """A tenant with two GPUs: so only Kueue's queue, which has one, makes the second Job wait."""
    found = tenant_manifest(NAME, gpus=2)
    if kueue.is_built():
        fleet.order(found)
    return found


@pytest.fixture(scope="module")
def frank(fleet: Fleet) -> Tenant:
    kueue.import_image(lambda text: print(text, file=sys.stderr))
    tenant = fleet.take(ahead(fleet))
    kueue.install(tenant.kubeconfig)
    return tenant


@pytest.fixture
def queue(frank: Tenant) -> str:
    """A queue with one GPU; the manager is ready shortly before its webhooks answer."""
    objects = json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": kueue.queue(QUEUE, "default", gpus=1, nodes=workloads.REAL)}
    )

    def made() -> None:
        done = kubectl(frank.kubeconfig, "apply", "-f", "-", given=objects, check=False)
        expect(done.code == 0, done.text)

    until("Kueue to take its queues", made, seconds=60)
    return QUEUE


def job(name: str, queue: str) -> Obj:
    """A Job of one pod with one GPU, which ends when a file appears in the pod."""
    wait = ("sh", "-c", f"ls /dev/nvidia[0-9]*; until [ -e {DONE} ]; do sleep 0.2; done")
    # Kueue chooses its node by the flavor of its queue.
    made = workloads.job(name, workloads.pod_spec(wait, gpus=1, where={}, restart="Never"))
    made["metadata"]["labels"] = {kueue.QUEUE_LABEL: queue}
    return made


def pod_of(api: Api, name: str) -> Obj:
    found = api.list("Pod", "default", labels=f"app={name}")
    if len(found) != 1:
        raise NotYetError(f"{len(found)} pods of job {name}: {api.get('Job', name, 'default')['spec'].get('suspend')=}")
    return found[0]


def runs_with_its_gpu(host: Api, tenant: Tenant, name: str) -> str:
    """Wait until the pod of a Job runs on the host's node, and check its GPU. Returns the pod's name."""
    pod = until(f"a pod of job {name}", lambda: pod_of(tenant.api, name), seconds=60)["metadata"]["name"]
    virtual = workloads.wait_running(tenant.api, pod)
    mirror = workloads.host_pod_of(host, virtual, tenant.work)
    assert mirror["spec"]["nodeSelector"].items() >= workloads.REAL.items()
    assert virtual["spec"]["nodeName"] == mirror["spec"]["nodeName"] == machine.NODE
    assert mirror["status"]["phase"] == "Running"
    assert workloads.gpus_of(mirror) == 1
    assert len(kubectl(tenant.kubeconfig, "exec", pod, "--", "sh", "-c", "ls /dev/nvidia[0-9]*").out.split()) == 1
    return str(pod)


def end(tenant: Tenant, name: str, pod: str) -> None:
    kubectl(tenant.kubeconfig, "exec", pod, "--", "touch", DONE)
    workloads.wait_job(tenant.api, name)


@needs_kueue
def test_item_37_of_two_jobs_in_kueues_queue_the_second_runs_when_the_first_has_ended(
    host: Api, frank: Tenant, queue: str
) -> None:
    for name in ("first", "second"):
        frank.api.create(job(name, queue))
        if name == "first":
            pod = runs_with_its_gpu(host, frank, name)

    def waits() -> None:
        # Kueue's webhook suspended it: the test did not.
        assert frank.api.get("Job", "second", "default")["spec"]["suspend"] is True
        expect(not frank.api.list("Pod", "default", labels="app=second"), "a pod of the second Job is there")
        mirrors = [item for item in host.list("Pod", frank.work) if workloads.gpus_of(item)]
        expect(len(mirrors) == 1, f"{len(mirrors)} pods with GPUs are on the host")

    holds("the second Job to be suspended", waits, seconds=5)
    end(frank, "first", pod)
    end(frank, "second", runs_with_its_gpu(host, frank, "second"))
