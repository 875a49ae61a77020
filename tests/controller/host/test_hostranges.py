"""What the controller watches of the host beside ranges."""

import asyncio
import contextlib
import secrets
from typing import Any, cast

import pytest

from bulkhead.api.storageclass import DEFAULT
from bulkhead.kube.client import Client
from bulkhead.kube.resources import STORAGE_CLASSES
from controller.host.hostranges import HostRanges
from controller.settings import Settings


@pytest.mark.apiserver
async def test_default_storage_classes_are_seen_and_told_once_they_change(host_client: Client) -> None:
    name, told = f"s-{secrets.token_hex(4)}", asyncio.Event()
    ranges = HostRanges(host_client, told.set, Settings().reserved)
    task = asyncio.create_task(ranges.run())

    def reported() -> tuple[str, ...]:
        """Those of the last turn: what changed and changed back between two turns is not told."""
        return cast("tuple[Any, Any, tuple[str, ...]]", ranges._reported)[2]

    async def until_it_is_one(wanted: bool) -> None:
        async with asyncio.timeout(20):
            while (name in reported()) != wanted:
                await told.wait()
                told.clear()
        assert (name in ranges.default_storage_classes()) == wanted

    try:
        await ranges.synced()
        async with asyncio.timeout(20):
            while ranges._reported is None:  # noqa: ASYNC110 -- a turn that tells nothing has no event
                await asyncio.sleep(0)
        meta = {"name": name, "annotations": {DEFAULT: "true"}}
        await host_client.create(STORAGE_CLASSES, {"metadata": meta, "provisioner": "example.org/disk"})
        await until_it_is_one(True)
        await host_client.patch(STORAGE_CLASSES, name, {"metadata": {"annotations": {DEFAULT: "false"}}})
        await until_it_is_one(False)
    finally:
        await host_client.delete(STORAGE_CLASSES, name)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
