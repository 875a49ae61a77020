"""What the controller watches of the host beside ranges."""

import asyncio
import contextlib
import secrets

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

    async def until_it_is_one(wanted: bool) -> None:
        async with asyncio.timeout(20):
            while (name in ranges.default_storage_classes()) != wanted:
                await told.wait()
                told.clear()

    try:
        await ranges.synced()
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
