"""A clone of a plane of three: each of its volumes is filled, its members are one cluster, and they heal like any other."""

import time
from collections.abc import Iterator

import pytest

from e2e import tenants
from e2e.api import Api
from e2e.poll import NotYetError, until
from e2e.scenarios.durable import clones
from e2e.scenarios.durable.conftest import THREE, Backups
from e2e.scenarios.durable.test_restore import config_map
from e2e.scenarios.durable.test_restore_three import whole
from e2e.tenants import Tenant

CLONE = f"{THREE}-2"
SNAPSHOT = f"{THREE}-c"
CLONED_SECONDS = 180.0


@pytest.fixture
def clone_name(host: Api) -> Iterator[str]:
    """The name of a tenant that is not there before and after."""
    with clones.away(host, SNAPSHOT, CLONE):
        yield CLONE


def claims(host: Api, tenant: Tenant) -> dict[str, str]:
    """The UIDs of the claims of a plane's members."""
    found = host.list("PersistentVolumeClaim", tenant.plane)
    return {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in found}


def test_a_clone_of_three_members_has_three_members_of_its_own(
    host: Api, three: Tenant, backups: Backups, clone_name: str
) -> None:
    until("three members to serve", lambda: whole(host, three), seconds=120)
    three.api.apply(config_map("before"))
    clones.snapshot(THREE, SNAPSHOT)
    of_three = claims(host, three)
    began = time.monotonic()
    done = clones.clone(THREE, SNAPSHOT, clone_name, backups)
    seconds = time.monotonic() - began
    print(f"three members cloned in {seconds:.0f} s:\n{done.text}", flush=True)
    assert done.code == 0, done.text
    tenants.wait_ready(host, [clone_name], seconds=180)
    two = tenants.open_tenant(clone_name)
    until("three members of the clone to serve", lambda: whole(host, two), seconds=120)
    clones.own(host, THREE, clone_name)
    assert two.api.get("ConfigMap", "before", "default")
    assert len(claims(host, two)) == 3
    assert not set(claims(host, two).values()) & set(of_three.values())

    # Its members are a cluster of their own: what one acknowledges is in no other plane, and a lost one is replaced.
    two.api.apply(config_map("of-the-clone"))
    assert three.api.find("ConfigMap", "of-the-clone", "default") is None
    former = claims(host, two)["data-plane-2"]
    host.delete("PersistentVolumeClaim", "data-plane-2", two.plane)
    host.delete("Pod", "plane-2", two.plane)

    def healed() -> None:
        if claims(host, two).get("data-plane-2") in (None, former):
            raise NotYetError("plane-2 has its volume")
        whole(host, two)

    until("plane-2 of the clone to be replaced", healed, seconds=300)
    assert two.api.get("ConfigMap", "of-the-clone", "default")
    assert claims(host, three) == of_three
    whole(host, three)
    assert seconds <= CLONED_SECONDS
