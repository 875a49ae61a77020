"""The APIs that the controller offers inside a plane, on a real API server: made, put right, never taken from the tenant."""

import contextlib
import copy
from collections.abc import AsyncIterator

import pytest

from bulkhead.api import labels
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, Unprocessable
from bulkhead.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, VOLUME_SNAPSHOTS
from controller.inside import definitions
from controller.inside.budget import Budget
from controller.inside.calls import Plane
from controller.inside.objects import snapshots
from tests.kit.crds import served
from tests.kit.servers import ApiServer, by_token
from tests.kit.snapshotting import SNAPSHOT_KINDS, remove_snapshots
from tests.kit.syncerbed import until

SNAPSHOTS, CLASSES = snapshots.definitions()
NAME = SNAPSHOTS["metadata"]["name"]


@pytest.fixture
async def plane(lone_server: ApiServer) -> AsyncIterator[Client]:
    async with Client(by_token(lone_server.admin), user_agent="tests", field_manager="tests") as client:
        yield client
        await remove_snapshots(client)


async def kept(plane: Client) -> None:
    for wanted in (SNAPSHOTS, CLASSES):
        async with Budget().turn("team-a", 30) as turn:
            assert await definitions.keep(Plane(plane, turn), wanted)


async def there(plane: Client) -> Obj:
    return await plane.get(CUSTOM_RESOURCE_DEFINITIONS, NAME)


async def write(plane: Client, definition: Obj) -> None:
    """Replace it, whatever controllers of the API server have written meanwhile."""

    async def written() -> bool:
        version = (await there(plane))["metadata"]["resourceVersion"]
        meta = definition["metadata"] | {"resourceVersion": version}
        with contextlib.suppress(Conflict):
            await plane.replace(CUSTOM_RESOURCE_DEFINITIONS, definition | {"metadata": meta})
            return True
        return False

    await until(written, "definition written")


def snapshot(**source: str) -> Obj:
    kind = {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot"}
    return kind | {"metadata": {"generateName": "x-", "namespace": "default"}, "spec": {"source": source}}


async def test_item_35_the_definitions_are_made_and_kept(plane: Client) -> None:
    await kept(plane)
    await served(plane, *SNAPSHOT_KINDS)
    made = await there(plane)

    async def nothing_written() -> bool:
        """The API server's own controllers write the status some moments after a change."""
        before = await there(plane)
        await kept(plane)
        after = await there(plane)
        assert after["metadata"]["generation"] == before["metadata"]["generation"] == made["metadata"]["generation"]
        return bool(after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"])

    await until(nothing_written, "a pass that writes nothing")

    # Exactly one source, and for good.
    held = await plane.create(VOLUME_SNAPSHOTS, snapshot(persistentVolumeClaimName="data"))
    name = held["metadata"]["name"]
    for wrong in (snapshot(), snapshot(persistentVolumeClaimName="data", volumeSnapshotContentName="a")):
        with pytest.raises(Unprocessable, match="exactly one"):
            await plane.create(VOLUME_SNAPSHOTS, wrong)
    patch = {"spec": {"source": {"persistentVolumeClaimName": "other"}}}
    with pytest.raises(Unprocessable, match="immutable"):
        await plane.patch(VOLUME_SNAPSHOTS, name, patch, "default")

    # A tenant bends it: any shape, no status, another name for people, a note of its own.
    bent = copy.deepcopy(made)
    version = bent["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    del version["subresources"]
    bent["spec"]["names"]["shortNames"] = ["mine"]
    bent["metadata"]["annotations"]["example.org/note"] = "mine"
    await write(plane, bent)

    async def put_right() -> bool:
        await kept(plane)
        return bool((await there(plane))["spec"] == made["spec"])

    await until(put_right, "the definition as it should be")
    right = await there(plane)
    assert right["metadata"]["annotations"]["example.org/note"] == "mine"
    assert (await plane.get(VOLUME_SNAPSHOTS, name, "default"))["metadata"]["uid"] == held["metadata"]["uid"]

    # It deletes it: with the next pass it is there again, without what was in it.
    await remove_snapshots(plane)
    await kept(plane)
    await served(plane, *SNAPSHOT_KINDS)
    assert (await plane.list(VOLUME_SNAPSHOTS)).items == []


async def test_item_35_what_the_api_server_does_not_let_be_put_right_stops_nothing(plane: Client) -> None:
    await kept(plane)
    await served(plane, *SNAPSHOT_KINDS)
    bent = await there(plane)
    old = copy.deepcopy(bent["spec"]["versions"][0]) | {"name": "v1beta9", "storage": True}
    bent["spec"]["versions"][0]["storage"] = False
    bent["spec"]["versions"].append(old)
    await write(plane, bent)

    async def stored() -> bool:
        return "v1beta9" in (await there(plane))["status"]["storedVersions"]

    await until(stored, "the tenant's version is stored")
    await kept(plane)  # raises nothing
    assert len((await there(plane))["spec"]["versions"]) == 2


async def test_item_35_a_definition_of_the_tenants_own_stays_as_it_is(plane: Client) -> None:
    own = copy.deepcopy(SNAPSHOTS)
    del own["metadata"]["labels"][labels.PLATFORM]
    own["spec"]["versions"][0]["additionalPrinterColumns"] = []
    before = await plane.create(CUSTOM_RESOURCE_DEFINITIONS, own)
    await kept(plane)
    after = await there(plane)
    assert after["spec"] == before["spec"]
    assert labels.PLATFORM not in after["metadata"]["labels"]
