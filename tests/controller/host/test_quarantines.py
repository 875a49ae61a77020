"""A plane that its syncer does not believe is work for the controller at once: on a real API server, with a real record."""

from typing import Any

import pytest

from bulkhead.api import labels, planeidentity
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from controller.host.quarantines import Quarantines
from syncer.write.identity import PlaneIdentity
from tests.kit.background import background
from tests.kit.fakeclock import FakeClock
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]


async def test_a_quarantine_and_its_end_are_told_at_once_and_records_of_revisions_are_not(quiet_server: ApiServer) -> None:
    told: list[str] = []
    async with (
        Client(by_token(quiet_server.admin), user_agent="tests", field_manager="tests") as client,
        background(Quarantines(client, told.append).run()),
    ):
        for namespace in ("bh-red", "bh-red-work", "another"):
            await client.apply(kinds.NAMESPACES, {"metadata": {"name": namespace}})
        identity = PlaneIdentity(client, client, "bh-red", FakeClock())
        await identity.establish()
        identity.saw("99999998")
        await identity.flush()
        # What looks like a record, and is none of a plane; with the next change of one the watch has shown them.
        for namespace in ("bh-red-work", "another"):
            await client.create(kinds.CONFIG_MAPS, _marked(), namespace)
        assert told == []

        async def is_told() -> bool:
            return told == ["red"]

        identity.saw("99999999")
        assert not await identity.trusted()
        await until(is_told, "the quarantine to be told")
        told.clear()
        # `bulkhead tenant accept-data`
        await client.delete(kinds.CONFIG_MAPS, planeidentity.NAME, "bh-red")
        await until(is_told, "the end of the quarantine to be told")


def _marked() -> dict[str, Any]:
    return {"metadata": {"name": planeidentity.NAME, "labels": {labels.QUARANTINED: "true"}}, "data": {"quarantine": "no"}}
