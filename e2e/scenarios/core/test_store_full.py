"""A tenant fills its plane's store: the plane stays up, reports that it is full, and opens again; others notice nothing."""

import base64
import os
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from e2e import tenants, workloads
from e2e.api import Api, ApiError, Obj
from e2e.poll import NotYetError, until
from e2e.tenants import Tenant

LARGE = 960_000
MANY = 220  # this number once ended a plane for good
CONFLICT = 409
SMALL_STORE = {"storage": {"quota": "100Mi"}}


def large(name: str) -> Obj:
    text = base64.b64encode(os.urandom(LARGE * 3 // 4)).decode()
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"text": text}}


def fill(api: Api, most: int, first: int = 0) -> tuple[list[str], str]:
    """The names of the created objects, and the API's answer when it accepted no more."""
    made: list[str] = []
    for number in range(first, first + most):
        try:
            api.create(large(f"large-{number}"))
        except ApiError as error:
            # etcd stores the object that exceeds its quota, and still answers that its space is exceeded.
            if error.status != CONFLICT:
                return made, str(error)
        made.append(f"large-{number}")
    return made, ""


def restarts(host: Api, tenant: Tenant) -> dict[str, int]:
    return workloads.restarts(host.get("Pod", "plane-0", tenant.plane))


def answers(tenant: Tenant) -> None:
    """A working plane: it accepts an object and returns it."""
    tenant.api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "beat", "namespace": "default"}})


def fill_to_the_brim(host: Api, tenant: Tenant, made: list[str]) -> None:
    """A store that is full of holes and old versions opens again by itself; this one needs deletions."""
    more, said = fill(tenant.api, MANY, len(made))
    made += more
    ready = tenants.conditions(host.get("Tenant", tenant.name))["Ready"]
    if ready["reason"] != "StoreFull" or "must be freed" not in ready["message"]:
        raise NotYetError(f"{ready['message']}; {said}")


def names_what_fills_it(host: Api, tenant: Tenant, made: list[str]) -> None:
    # Old versions of what others write in the plane may have opened it once more, for good or for a moment.
    fill_to_the_brim(host, tenant, made)
    message = str(tenants.conditions(host.get("Tenant", tenant.name))["Ready"]["message"])
    found = re.search(r"most is in configmaps (\d+) \((\d+)Mi\)", message)
    if found is None or int(found[1]) < len(made):
        raise NotYetError(message)


@pytest.mark.fresh(gpus=0)
def test_220_large_configmaps_end_no_plane(host: Api, tenant: Tenant, bob: Tenant) -> None:
    before, others = restarts(host, tenant), restarts(host, bob)
    made, said = fill(tenant.api, MANY)
    assert (len(made), said) == (MANY, "")
    answers(bob)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda path: len(tenant.api.text(path)), ["/api/v1/configmaps"] * 2))
    assert min(found) > MANY * LARGE
    assert restarts(host, tenant) == before, "a program of the plane was ended"
    # The API server has to read the whole full store again.
    host.delete("Pod", "plane-0", tenant.plane)
    until("the plane to be of use again", partial(answers, tenant), seconds=180, interval=1.0)
    tenants.wait_ready(host, [tenant.name], seconds=180)
    assert sum(restarts(host, tenant).values()) == 0, "a program of the plane was ended while it started"
    assert restarts(host, bob) == others
    answers(bob)


@pytest.mark.fresh(gpus=0, controlPlane=SMALL_STORE)
def test_a_full_store_is_said_and_opens_once_its_tenant_has_deleted_enough(host: Api, tenant: Tenant, bob: Tenant) -> None:
    room = tenants.wait_condition(host, tenant.name, "StoreHasRoom", status="True", seconds=180)
    assert "of 100Mi" in room["message"]
    before = restarts(host, tenant)
    made, said = fill(tenant.api, MANY)
    assert "database space exceeded" in said
    until("a store that is full for good", partial(fill_to_the_brim, host, tenant, made), seconds=180, interval=2.0)
    full = tenants.wait_condition(host, tenant.name, "Ready", status="False", reason="StoreFull", seconds=60)
    assert "controlPlane.storage.quota" in full["message"]
    # Its API server counts once a minute.
    until("what fills it to be told", partial(names_what_fills_it, host, tenant, made), seconds=90, interval=2.0)
    answers(bob)
    for name in made[: len(made) * 2 // 3]:
        assert tenant.api.delete("ConfigMap", name, "default"), "a full store takes no deletion"
    until("the plane to take something new", partial(answers, tenant), seconds=180, interval=2.0)
    tenants.wait_ready(host, [tenant.name], seconds=120)
    assert restarts(host, tenant) == before
