"""Pods that a tenant schedules itself: by a Binding, and by a second kube-scheduler in its cluster, with its gangs."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import machine, workloads
from e2e.api import Api, path_of
from e2e.fleet import Fleet
from e2e.poll import holds, until
from e2e.scenarios.core.shared import GANG as SIZE
from e2e.scenarios.core.shared import with_pod_groups as ahead
from e2e.tenants import Tenant

MINE = "my-scheduler"
GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"


@pytest.fixture(scope="module")
def carol(fleet: Fleet) -> Tenant:
    """A tenant whose cluster has pod groups, by which its own scheduler schedules."""
    return fleet.take(ahead(fleet))


@pytest.fixture
def scheduler(carol: Tenant, tmp_path: Path) -> Iterator[None]:
    """The host's own kube-scheduler, run by the tenant for its cluster."""
    program = next(item.pid for item in machine.processes_of_host() if item.program == "kube-scheduler")
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(carol.kubeconfig.resolve())},
        "profiles": [{"schedulerName": MINE}],
    }
    (tmp_path / "scheduler.json").write_text(json.dumps(config))
    command = [f"/proc/{program}/exe", f"--config={tmp_path / 'scheduler.json'}", "--secure-port=0", f"--feature-gates={GATES}"]
    with (tmp_path / "scheduler.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        yield
        process.terminate()


def bind(tenant: Tenant, name: str, space: str, node: str) -> None:
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    tenant.api.request("POST", f"{path_of('Pod', space, name)}/binding", body=body)


def test_item_37_50_a_pod_that_a_tenant_binds_itself_runs_there(host: Api, alice: Tenant, space: str) -> None:
    alice.api.create(workloads.pod("web", workloads.pod_spec(schedulerName=MINE), namespace=space))
    workloads.wait_refused(alice.api, "web", "WaitingForScheduler", namespace=space)
    bind(alice, "web", space, machine.NODE)
    virtual = workloads.wait_running(alice.api, "web", namespace=space)
    assert virtual["spec"]["nodeName"] == machine.NODE
    assert workloads.host_pod_of(host, virtual, alice.work)["spec"]["nodeName"] == machine.NODE
    alice.api.create(workloads.pod("astray", workloads.pod_spec(schedulerName=MINE), namespace=space))
    bind(alice, "astray", space, "node-of-nobody")
    workloads.wait_refused(alice.api, "astray", "NodeNotVisible", says="node-of-nobody", namespace=space)
    assert not host.list("Pod", alice.work, labels=f"bulkhead.dev/virtual-uid={_uid(alice, 'astray', space)}")


def test_item_50_a_pod_that_a_tenant_bound_and_the_host_lost_does_not_run_again(host: Api, alice: Tenant, space: str) -> None:
    alice.api.create(workloads.pod("web", workloads.pod_spec(schedulerName=MINE), namespace=space))
    bind(alice, "web", space, machine.NODE)
    virtual = workloads.wait_running(alice.api, "web", namespace=space)
    mirror = workloads.host_pod_of(host, virtual, alice.work)
    host.delete("Pod", mirror["metadata"]["name"], alice.work, grace=0)
    workloads.wait_pod_gone(alice.api, "web", namespace=space)
    mark = f"bulkhead.dev/virtual-uid={virtual['metadata']['uid']}"

    def none_again() -> None:
        workloads.expect(not host.list("Pod", alice.work, labels=mark), "it runs a second time")

    until("nothing of it to be on the host", none_again, seconds=30)
    holds("nothing of it to come again", none_again, seconds=5)


@pytest.mark.usefixtures("scheduler")
def test_item_37_50_a_gang_of_the_tenants_own_kube_scheduler_runs_whole(host: Api, carol: Tenant) -> None:
    group = {"schedulingPolicy": {"gang": {"minCount": SIZE}}}
    about = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "default"},
    }
    carol.api.create(about | {"spec": group})
    names = [f"train-{number}" for number in range(SIZE)]
    tolerated = [workloads.TOLERATION]
    # The tenant's scheduler chooses the node, by the nodes and GPUs that it sees.
    spec = workloads.pod_spec(
        gpus=1, where={}, schedulingGroup={"podGroupName": "gang"}, schedulerName=MINE, tolerations=tolerated
    )
    *most, last = names
    for name in most:
        carol.api.create(workloads.pod(name, spec))

    def none_on_host() -> None:
        workloads.expect(not host.list("Pod", carol.work), "a part of the gang is on the host")

    holds("the gang to wait for its last pod", none_on_host, seconds=5)
    carol.api.create(workloads.pod(last, spec))
    for name in names:
        virtual = workloads.wait_running(carol.api, name)
        mirror = workloads.host_pod_of(host, virtual, carol.work)
        assert mirror["spec"]["nodeName"] == virtual["spec"]["nodeName"]
    # Pods that it preempts or deletes end like any other pod.
    for name in names:
        carol.api.delete("Pod", name, "default", grace=0)
        workloads.wait_pod_gone(carol.api, name)
    until("nothing to be left on the host", none_on_host, seconds=60)
    carol.api.delete("PodGroup", "gang", "default")


def _uid(tenant: Tenant, name: str, space: str) -> str:
    return str(tenant.api.get("Pod", name, space)["metadata"]["uid"])
