"""Volumes of a cluster that should change, in a plane that is a real API server; nothing creates volumes or pods in it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from controller.inside.budget import Budget
from controller.inside.calls import Plane
from controller.slurm.apply import Applier
from controller.slurm.decide.status import Found, verdict
from controller.slurm.objects.nodesets import definition
from controller.slurm.objects.render import render
from controller.slurm.spec import HOME, NAMESPACE, SlurmSpec, Volume
from tests.controller.slurm_runtime.bed import KEYS
from tests.controller.slurm_runtime.world import node_set, slurm_spec
from tests.kit.fakeclock import FakeClock
from tests.kit.servers import ApiServer, by_token

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]
STATE = "state-slurmctld-0"


# What a cluster leaves that another one would find: its namespace is called the same in every plane.
LEFT = (kinds.STATEFUL_SETS, kinds.SERVICES, kinds.CONFIG_MAPS, kinds.PERSISTENT_VOLUME_CLAIMS)


@pytest.fixture
async def server(file_server: ApiServer) -> AsyncIterator[ApiServer]:
    """The server of this file, without a cluster."""
    yield file_server
    async with Client(by_token(file_server.admin), user_agent="tests", field_manager="tests") as client:
        for resource in LEFT:
            for item in (await client.list_metadata(resource, NAMESPACE)).items:
                name = item["metadata"]["name"]
                if item["metadata"].get("finalizers"):  # the API server's own, of claims
                    await client.patch(resource, name, {"metadata": {"finalizers": None}}, NAMESPACE)
                await client.delete(resource, name, NAMESPACE)


class Bench:
    """A cluster's objects in a plane."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.clock = FakeClock()
        self.applier = Applier(self.clock)

    async def apply(self, spec: SlurmSpec) -> str:
        """Bring the objects in, and say what stays as it is."""
        async with Budget().turn("team-a", 60) as turn:
            plane = Plane(self.client, turn)
            await self.applier.apply(plane, [definition()])
            await self.applier.apply(plane, render(spec, KEYS))
        return self.applier.kept

    async def bind(self, name: str, size: str, storage_class: str) -> None:
        """What a provisioner does; a claim that a StatefulSet would make is made, too."""
        if name != HOME:
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
            spec |= {"storageClassName": storage_class, "volumeName": f"pv-{name}"}
            await self.client.create(
                kinds.PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
            )
        else:
            body = {"spec": {"volumeName": f"pv-{name}"}}
            await self.client.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, body, NAMESPACE)
        status = {"status": {"phase": "Bound", "capacity": {"storage": size}}}
        await self.client.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, status, NAMESPACE, subresource="status")

    async def asks(self, name: str) -> str:
        found = await self.client.get(kinds.PERSISTENT_VOLUME_CLAIMS, name, NAMESPACE)
        return str(found["spec"]["resources"]["requests"]["storage"])

    async def set_of(self, name: str) -> Obj:
        return await self.client.get(kinds.STATEFUL_SETS, name, NAMESPACE)


@asynccontextmanager
async def bench(server: ApiServer, storage_class: str) -> AsyncIterator[Bench]:
    """A cluster whose volumes are of this class."""
    async with Client(by_token(server.admin), user_agent="tests", field_manager="bulkhead-controller") as client:
        for name, grows in (("fast", True), ("fixed", False)):
            obj = {"metadata": {"name": name}, "provisioner": "example.org/none", "allowVolumeExpansion": grows}
            await client.apply(kinds.STORAGE_CLASSES, obj)
        made = Bench(client)
        assert await made.apply(asked(storage_class, "1Gi", "10Gi")) == ""
        await made.bind(STATE, "1Gi", storage_class)
        await made.bind(HOME, "10Gi", storage_class)
        yield made


def asked(storage_class: str, state: str, home: str, **more: Any) -> SlurmSpec:
    volumes = {"state": Volume(state, storage_class), "home": Volume(home, storage_class)}
    return replace(slurm_spec(node_set()), **(volumes | more))


async def test_volumes_grow_and_everything_else_is_applied(server: ApiServer) -> None:
    async with bench(server, "fast") as made:
        before = await made.set_of("slurmctld")
        wanted = asked("fast", "4Gi", "40Gi", extra_conf=(("MaxArraySize", "7000"),))
        assert await made.apply(wanted) == ""
        assert (await made.asks(STATE), await made.asks(HOME)) == ("4Gi", "40Gi")
        after = await made.set_of("slurmctld")
        assert after["spec"]["volumeClaimTemplates"] == before["spec"]["volumeClaimTemplates"]
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["spec"]["template"]["metadata"]["annotations"] != before["spec"]["template"]["metadata"]["annotations"]
        # And again after the resync.
        made.clock.advance(121)
        assert await made.apply(wanted) == ""


@pytest.mark.parametrize(("storage_class", "size"), [("fast", "4Gi"), ("fixed", "1Gi")])
async def test_a_volume_that_is_raised_while_slurm_is_off_grows_or_says_so(
    server: ApiServer, storage_class: str, size: str
) -> None:
    async with bench(server, storage_class) as made:
        await made.client.delete(kinds.STATEFUL_SETS, "slurmctld", NAMESPACE)
        made.applier = Applier(made.clock)
        message = await made.apply(asked(storage_class, "4Gi", "10Gi"))
        assert await made.asks(STATE) == size
        assert message.startswith(f"{STATE} stays at 1Gi: 4Gi is requested") == (storage_class == "fixed")


async def test_volumes_that_cannot_grow_say_so_and_hold_up_nothing(server: ApiServer) -> None:
    async with bench(server, "fixed") as made:
        before = await made.set_of("slurmctld")
        said = await made.apply(asked("fixed", "4Gi", "40Gi", extra_conf=(("MaxArraySize", "7000"),)))
        assert f"{STATE} stays at 1Gi: 4Gi is requested" in said
        assert f"{HOME} stays at 10Gi: 40Gi is requested" in said
        assert "allowVolumeExpansion: true on StorageClass fixed" in said
        after = await made.set_of("slurmctld")
        assert after["spec"]["template"]["metadata"]["annotations"] != before["spec"]["template"]["metadata"]["annotations"]
        told = verdict(Found(applied=True, wanted={}, counts={}, kept=said), was=True)
        assert told.status == "True"
        assert STATE in told.message
        # Nothing is tried again and again in between, and nothing is forgotten.
        before = await made.set_of("slurmctld")
        assert await made.apply(asked("fixed", "4Gi", "40Gi", extra_conf=(("MaxArraySize", "7000"),))) == said
        assert await made.set_of("slurmctld") == before
        moved = await made.apply(asked("fast", "1Gi", "5Gi"))
        assert f"{STATE} stays in StorageClass fixed: fast is requested" in moved
        assert f"{HOME} stays at 10Gi: 5Gi is requested" in moved
        assert await made.apply(asked("fixed", "1Gi", "10Gi")) == ""


async def test_what_a_tenant_has_put_in_the_place_of_an_object_is_said_too(server: ApiServer) -> None:
    async with bench(server, "fast") as made:
        service = await made.client.get(kinds.SERVICES, "slurmctld", NAMESPACE)
        await made.client.delete(kinds.SERVICES, "slurmctld", NAMESPACE)
        spec = {"ports": service["spec"]["ports"]}
        await made.client.create(kinds.SERVICES, {"metadata": {"name": "slurmctld", "namespace": NAMESPACE}, "spec": spec})
        made.clock.advance(121)
        said = await made.apply(asked("fast", "1Gi", "10Gi", extra_conf=(("MaxArraySize", "7000"),)))
        assert "Service slurm/slurmctld stays as it is" in said
        assert "delete it in the plane" in said
        await made.client.delete(kinds.SERVICES, "slurmctld", NAMESPACE)
        made.clock.advance(121)
        assert await made.apply(asked("fast", "1Gi", "10Gi")) == ""
