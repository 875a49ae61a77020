"""Edits of a Tenant: a refused edit changes nothing on the host, and objects in use cannot be deleted."""

import pytest

from e2e import tenants, workloads
from e2e.api import Api, ApiError, Obj
from e2e.fleet import Fleet
from e2e.names import GPU
from e2e.poll import holds, until
from e2e.scenarios.core.shared import OWN_CLASS as NAME
from e2e.scenarios.core.shared import of_its_own_class as ahead
from e2e.tenants import Tenant

LIMIT = 2


def test_an_edit_that_is_refused_changes_nothing_and_its_class_stays(host: Api, fleet: Fleet) -> None:
    tenant = fleet.take(ahead(fleet))
    tenants.give_quota(host, NAME, {"resources": {GPU: {"nominal": LIMIT}}})
    before = runs(host, tenant)
    quota = {"cohort": "demoo", "resources": {GPU: {"nominal": 0}}}
    host.patch("Tenant", NAME, {"spec": {"quota": quota, "isolation": {"userNamespaces": True}}})
    until("the edit to be refused", lambda: says(host, NAME, "OutOfBounds", "this edit is not applied"), seconds=60)
    holds("what runs", lambda: workloads.expect(runs(host, tenant) == before, str(runs(host, tenant))), seconds=5)
    host.patch("Tenant", NAME, {"spec": {"quota": {"cohort": None}, "isolation": None}})
    until("the corrected edit to count", lambda: workloads.expect(runs(host, tenant)[0] == "0", "not yet"), seconds=60)

    # The class names its users a second later, and a deletion is refused with their names.
    def noted() -> None:
        found = host.get("TenantClass", NAME).get("status") or {}
        workloads.expect(found.get("tenantNames") == [NAME], str(found))

    until("the class to say who uses it", noted, seconds=60)
    with pytest.raises(ApiError, match=f"TenantClass {NAME} is in use by Tenant {NAME}"):
        host.delete("TenantClass", NAME)


def runs(host: Api, tenant: Tenant) -> tuple[str, str, tuple[str, ...]]:
    """How many GPUs the host allows the tenant, the version of its plane's StatefulSet, and its syncers."""
    hard = host.get("ResourceQuota", "tenant-quota", tenant.work)["spec"]["hard"]
    plane = host.get("StatefulSet", "plane", tenant.plane)["metadata"]["generation"]
    pods = host.list("Pod", tenant.plane, labels="bulkhead.dev/component=syncer")
    return str(hard[f"requests.{GPU}"]), str(plane), tuple(sorted(pod["metadata"]["uid"] for pod in pods))


def says(host: Api, name: str, reason: str, words: str) -> None:
    ready: Obj = tenants.conditions(host.get("Tenant", name)).get("Ready", {})
    workloads.expect(ready.get("reason") == reason and words in ready.get("message", ""), str(ready))
