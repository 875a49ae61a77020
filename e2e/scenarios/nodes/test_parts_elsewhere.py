"""A tenant's syncer and DNS are on a node that is lost, and its plane on another one: they start elsewhere."""

from functools import partial

import pytest

from e2e import names, tenants, workloads
from e2e.api import Api, Obj
from e2e.poll import until
from e2e.scenarios.nodes.places import SECOND, THIRD, lost, on, only
from e2e.tenants import Tenant

PARTS = ("dns", "syncer")
# 30 s after the node is missed, and a start; Kubernetes' own default would be 300 s.
ELSEWHERE_SECONDS = 100.0


@pytest.mark.parametrize("how", ["killed", "cut"])
def test_syncer_and_dns_start_elsewhere(host: Api, alice: Tenant, how: str) -> None:
    tenants.wait_ready(host, [alice.name], seconds=120)
    with only(host, SECOND):
        for pod in _parts(host, alice):
            host.delete("Pod", pod["metadata"]["name"], alice.plane)
        until("both to be on the node that is lost", partial(_are, host, alice, SECOND, True), seconds=120)
    former = {pod["metadata"]["uid"] for pod in _parts(host, alice)}
    with lost(host, SECOND, how):
        until("both to be elsewhere", partial(_are, host, alice, SECOND, False), seconds=ELSEWHERE_SECONDS)
        name = f"elsewhere-{how}"
        alice.api.apply(workloads.pod(name, workloads.pod_spec(where=on(THIRD))))
        workloads.wait_running(alice.api, name)
    until("the former ones to end with the return of their node", partial(_gone, host, alice, former), seconds=90)
    tenants.wait_ready(host, [alice.name], seconds=120)
    workloads.wait_running(alice.api, name)


def _parts(host: Api, tenant: Tenant) -> list[Obj]:
    return [pod for pod in host.list("Pod", tenant.plane) if pod["metadata"]["labels"].get(names.COMPONENT) in PARTS]


def _are(host: Api, tenant: Tenant, node: str, there: bool) -> None:
    """Inside a wait: one pod of each part is ready, on this node or on another one; those that end do not count."""
    found = [pod for pod in _parts(host, tenant) if "deletionTimestamp" not in pod["metadata"]]
    seen = sorted((pod["metadata"]["labels"][names.COMPONENT], pod["spec"].get("nodeName", "")) for pod in found)
    workloads.expect([part for part, _ in seen] == list(PARTS), str(seen))
    workloads.expect(all((place == node) is there and place for _, place in seen), str(seen))
    workloads.expect(all(workloads.is_ready(pod) for pod in found), ", ".join(map(workloads.describe, found)))


def _gone(host: Api, tenant: Tenant, former: set[str]) -> None:
    left = [pod["metadata"]["name"] for pod in _parts(host, tenant) if pod["metadata"]["uid"] in former]
    workloads.expect(not left, f"{', '.join(left)} left")
