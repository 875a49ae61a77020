"""ConfigMaps and Secrets of a cluster that a tenant has changed, in a plane that is a real API server."""

from collections.abc import AsyncIterator

import pytest

from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from controller.slurm.spec import NAMESPACE, UserSpec
from tests.controller.slurm_runtime.test_volumes import Bench, asked, server
from tests.kit.servers import ApiServer, by_token

__all__ = ["server"]
pytestmark = pytest.mark.apiserver
KEY = f"ssh-ed25519 {'a' * 40}"
KEYS_FILE = "slurm-authorized-keys"


@pytest.fixture
async def made(server: ApiServer) -> AsyncIterator[Bench]:
    """A cluster of one user with a key, in a plane."""
    async with Client(by_token(server.admin), user_agent="tests", field_manager="bulkhead-controller") as client:
        bench = Bench(client)
        assert await bench.apply(asked("", "1Gi", "10Gi", users=(UserSpec("alice", 10001, (KEY,)),))) == ""
        yield bench


async def test_a_file_that_a_tenant_adds_is_removed(made: Bench, server: ApiServer) -> None:
    spec = asked("", "1Gi", "10Gi", users=(UserSpec("alice", 10001, (KEY,)),))
    before = await made.client.get(kinds.CONFIG_MAPS, KEYS_FILE, NAMESPACE)
    async with Client(by_token(server.admin), user_agent="tests", field_manager="kubectl-edit") as tenant:
        added = {"data": {"root": KEY}, "binaryData": {"bob": "AAAA"}}
        await tenant.patch(kinds.CONFIG_MAPS, KEYS_FILE, added, NAMESPACE)
    made.clock.advance(121)
    assert await made.apply(spec) == ""
    after = await made.client.get(kinds.CONFIG_MAPS, KEYS_FILE, NAMESPACE)
    assert (after["data"], after.get("binaryData")) == (before["data"], None) == ({"alice": f"{KEY}\n"}, None)
    # At rest nothing is written.
    made.clock.advance(121)
    assert await made.apply(spec) == ""
    again = await made.client.get(kinds.CONFIG_MAPS, KEYS_FILE, NAMESPACE)
    assert again["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]


@pytest.mark.parametrize("resource", [kinds.CONFIG_MAPS, kinds.SECRETS])
async def test_an_object_that_a_tenant_has_made_immutable_is_recreated(made: Bench, resource: kinds.Resource) -> None:
    names = [item["metadata"]["name"] for item in (await made.client.list_metadata(resource, NAMESPACE)).items]
    for name in names:
        await made.client.patch(resource, name, {"immutable": True}, NAMESPACE)
    host_keys = await made.client.get(kinds.SECRETS, "slurm-ssh-host-keys", NAMESPACE)
    await made.client.delete(kinds.SECRETS, "slurm-ssh-host-keys", NAMESPACE)
    body = {"metadata": {"name": "slurm-ssh-host-keys", "namespace": NAMESPACE}, "immutable": True}
    await made.client.create(kinds.SECRETS, body)
    made.clock.advance(121)
    assert await made.apply(asked("", "1Gi", "10Gi", users=())) == ""
    assert not (await made.client.get(kinds.CONFIG_MAPS, KEYS_FILE, NAMESPACE)).get("data")
    assert (await made.client.get(kinds.SECRETS, "slurm-ssh-host-keys", NAMESPACE))["data"] == host_keys["data"]
