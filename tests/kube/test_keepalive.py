"""A server that vanishes without a word, as behind a partition that drops packets: its watch ends within half a minute."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from bulkhead.kube.client import Client
from bulkhead.kube.errors import Unavailable
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.keepalive import NOTICED_SECONDS
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import CONFIG_MAPS
from tests.kit.background import background
from tests.kit.syncerbed import until
from tests.kit.vanishing import deafen, hurry, noticed_after

# Half of a watch's longest silence: without the kernel's probes the test is red.
_AT_MOST_SECONDS = 35.0


def transports(client: Client) -> list[asyncio.Transport]:
    """All open connections of a client."""
    calls = client.transport._calls
    assert calls is not None
    return [connection._transport for connection in calls._open if connection._transport is not None]


async def test_a_watch_whose_server_vanished_is_opened_again(
    host_client: Client, host_config: KubeConfig, namespace: str, eventually: Callable[..., Awaitable[None]]
) -> None:
    changes: list[Change] = []
    async with Client(host_config, user_agent="tests", field_manager="tests") as client:
        informer = Informer(client, CONFIG_MAPS, namespace=namespace, on_change=changes.append)
        async with background(informer.run()):
            await informer.synced()
            await host_client.create(CONFIG_MAPS, {"metadata": {"name": "before"}}, namespace)
            await eventually(lambda: [change.key.name for change in changes] == ["before"])
            opened = transports(client)
            assert opened
            assert {noticed_after(transport) for transport in opened} == {NOTICED_SECONDS}
            for transport in opened:
                hurry(transport)
                deafen(transport)
            began = time.monotonic()
            await host_client.create(CONFIG_MAPS, {"metadata": {"name": "meanwhile"}}, namespace)

            async def heard() -> bool:
                return len(changes) == 2

            await until(heard, "what happened meanwhile", _AT_MOST_SECONDS)
            assert time.monotonic() - began > 1, "the event came by a connection that was to be deaf"
    assert [(change.key.name, change.relist) for change in changes] == [("before", False), ("meanwhile", False)]
    assert informer.relists == 1, "a server that was merely away reports by watch what happened meanwhile"
    assert informer.last_error is None or isinstance(informer.last_error, Unavailable)


def test_it_is_noticed_within_half_a_minute() -> None:
    assert NOTICED_SECONDS <= 30
