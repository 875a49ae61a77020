"""A plane whose volume is lost comes up empty: this is reported, nothing on the host is deleted, and an admin decides."""

from e2e import commands, machine, tenants, workloads
from e2e.api import Api
from e2e.fleet import Fleet
from e2e.poll import until
from e2e.scenarios.core.shared import DAMAGED as NAME
from e2e.scenarios.core.shared import damaged as ahead


def uid_of(host: Api) -> str:
    return str(host.get("Tenant", NAME)["status"]["planeClusterUID"])


def gone(host: Api, namespace: str, name: str) -> None:
    workloads.expect(host.find("Pod", name, namespace) is None, f"{namespace}/{name} is there")


def accept(*options: str) -> commands.Outcome:
    return commands.bulkhead("tenant", "accept-data", NAME, *options, kubeconfig=machine.KUBECONFIG, check=False, seconds=180)


def test_a_lost_volume_is_said_and_costs_the_host_nothing_until_it_is_accepted(host: Api, fleet: Fleet) -> None:
    losing = fleet.take(ahead(fleet))
    losing.api.create(workloads.pod("stays"))
    virtual = workloads.wait_running(losing.api, "stays")
    runs = workloads.host_pod_of(host, virtual, losing.work)["metadata"]
    before = uid_of(host)
    # The control: a plane that only restarts keeps its identity.
    assert "nothing to accept" in accept("--yes").out
    host.delete("PersistentVolumeClaim", "data-plane-0", losing.plane)
    host.delete("Pod", "plane-0", losing.plane, grace=0)
    message = tenants.wait_condition(host, NAME, "Ready", status="False", reason="DataLost", seconds=120)["message"]
    assert before in message
    assert uid_of(host) == before, "the identity that the host's objects were made for was forgotten"
    # Its syncer sees that the pod is absent, but no longer trusts that.
    assert host.get("Pod", runs["name"], losing.work)["metadata"]["uid"] == runs["uid"]
    refused = accept()
    assert refused.code == 2
    assert "default/stays" in refused.err
    accepted = accept("--yes")
    assert accepted.code == 0, accepted.err
    tenants.wait_ready(host, [NAME], seconds=120)
    assert uid_of(host) != before
    assert uid_of(host) in message
    # Now the syncer acts on the absence.
    until("the pod of the lost data to end", lambda: gone(host, losing.work, runs["name"]), seconds=90)
    # Nothing is left to accept, and the tenant works again.
    assert "nothing to accept" in accept("--yes").out
    again = tenants.open_tenant(NAME)
    again.api.create(workloads.pod("new"))
    workloads.wait_running(again.api, "new")
