"""Tunnels into planes to which no route leads. Needs no server."""

import contextlib
from typing import Any, Final, cast

import pytest

from workstation.cli import connection, tunnel
from workstation.cli.arguments import Host
from workstation.cli.chaos.reach import Reach

PORT: Final = 1234


async def test_a_tunnel_asks_no_plugin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin would block the run, its lease and what undoes it, for as long as two minutes for each tenant."""
    used: list[object] = []

    async def start(made: tunnel.Tunnel) -> int:
        used.append(made._client)
        return PORT

    def asked(*_: object, **__: object) -> None:
        pytest.fail("the plugin was asked again")

    monkeypatch.setattr(connection, "host_client", asked)
    monkeypatch.setattr(tunnel.Tunnel, "start", start)
    monkeypatch.setattr(tunnel, "through", lambda data, port: data + str(port).encode())
    # Without any method: the end of a tunnel leaves the run's client open.
    client = cast("Any", object())
    async with contextlib.AsyncExitStack() as stack:
        data = await Reach(Host(), client, "always")._routed(stack, "red", b"kubeconfig")
    assert (data, used) == (b"kubeconfig1234", [client])
