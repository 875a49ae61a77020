"""A power cut: every process of the host and every container dies at once, and `host up` restarts what is left."""

import signal

import pytest

from e2e import machine, tenants, workloads
from e2e.api import Api, UnreachableError
from e2e.poll import until
from e2e.tenants import Tenant
from e2e.workloads import is_ready

KEPT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"}, "data": {"a": "b"}}


def test_the_host_and_its_tenants_come_back_after_a_power_cut(host: Api, alice: Tenant, bob: Tenant, space: str) -> None:
    alice.api.apply(KEPT)
    alice.api.create(workloads.pod("lasting", namespace=space))
    workloads.wait_running(alice.api, "lasting", namespace=space)
    before = alice.api.get("Pod", "lasting", space)["metadata"]["uid"]
    mirror = _mirror_uid(host, alice, before)

    _cut()

    machine.bring_up(lambda line: print(line, flush=True))
    tenants.wait_ready(host, [alice.name, bob.name], seconds=180)
    kept = until("what the plane held to be there", lambda: alice.api.get("ConfigMap", "kept", "default"), seconds=60)
    assert kept["data"] == KEPT["data"]
    until("the pod to run again", lambda: _running_again(alice, space), seconds=120)
    # The same pods, restarted: a restart of the machine does not delete any pod.
    assert alice.api.get("Pod", "lasting", space)["metadata"]["uid"] == before
    assert _mirror_uid(host, alice, before) == mirror
    until("the plane to take another pod", lambda: alice.api.apply(workloads.pod("after", namespace=space)), seconds=60)
    workloads.wait_running(alice.api, "after", namespace=space, seconds=60)


def _cut() -> None:
    """Kill everything until nothing is left; the supervisor may start something in between."""

    def probe() -> None:
        left = machine.processes_of_host()
        for process in left:
            process.send(signal.SIGKILL)
        workloads.expect(not left, f"{len(left)} processes are left")

    assert machine.processes_of_host(), "no process to kill: this does not test a power cut"
    until("everything to be dead", probe, seconds=30, interval=0.2)
    with pytest.raises(UnreachableError):
        machine.host_api(timeout=2.0).get("Namespace", "default")


def _running_again(tenant: Tenant, space: str) -> None:
    pod = tenant.api.get("Pod", "lasting", space)
    status = (pod.get("status", {}).get("containerStatuses") or [{}])[0]
    workloads.expect(int(status.get("restartCount", 0)) > 0 and is_ready(pod), workloads.describe(pod))


def _mirror_uid(host: Api, tenant: Tenant, virtual_uid: str) -> str:
    found = host.list("Pod", tenant.work, labels=f"bulkhead.dev/virtual-uid={virtual_uid}")
    assert len(found) == 1
    return str(found[0]["metadata"]["uid"])
