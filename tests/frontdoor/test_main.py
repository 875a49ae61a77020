"""How the proxy begins: with no more connections than it may open files, and with the tenants that the host's API names."""

import asyncio
import json
import resource
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.work import jsonlog
from frontdoor import __main__ as process
from frontdoor.settings import Settings
from tests.frontdoor.test_routes import service
from tests.kit.background import background
from tests.kit.hostileserver import http, serving
from tests.kit.ports import free_port
from tests.kit.syncerbed import until


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Settings]]:
    """What `main` does in the end: by name, and with which settings."""
    found: list[tuple[str, Settings]] = []
    for name in ("first", "run"):

        async def noted(settings: Settings, _: KubeConfig, name: str = name) -> None:
            found.append((name, settings))

        monkeypatch.setattr(process, name, noted)
    monkeypatch.setattr(KubeConfig, "in_cluster", lambda: KubeConfig(server="http://127.0.0.1:1"))
    monkeypatch.setattr(jsonlog, "configure", lambda _: None)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(sys, "argv", ["frontdoor"])
    return found


@pytest.mark.parametrize(("files", "connections"), [(100_000, 20_000), (20_000, 9850), (-1, 20_000)])
def test_it_takes_no_more_connections_than_it_may_open_files(
    files: int,
    connections: int,
    begun: list[tuple[str, Settings]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # The soft limit is not what holds: HAProxy raises it.
    monkeypatch.setattr(resource, "getrlimit", lambda which: (64, files) if which == resource.RLIMIT_NOFILE else ())
    process.main()
    wanted = Settings()
    assert begun == [("run", replace(wanted, limits=replace(wanted.limits, connections=connections)))]
    said = [] if connections == wanted.limits.connections else [f"connections: {connections}, as many as open files allow here"]
    assert caplog.messages == said


def test_once_it_only_writes_the_files(begun: list[tuple[str, Settings]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["frontdoor", "--once"])
    process.main()
    assert [name for name, _ in begun] == ["first"]


def test_with_settings_that_make_no_sense_it_does_not_start(
    begun: list[tuple[str, Settings]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BULKHEAD_PROXY_CONNECTIONS", "0")
    with pytest.raises(SystemExit, match="bulkhead-proxy cannot start: BULKHEAD_PROXY_CONNECTIONS"):
        process.main()
    assert begun == []


async def test_it_writes_no_files_before_the_host_has_said_which_tenants_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_LIST_RETRY_SECONDS", 0.0)
    listed = {"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [service("team-a")]}
    heads: list[bytes] = []
    before: list[Path] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        before.extend(tmp_path.iterdir())  # noqa: ASYNC240 - an empty folder
        heads.append(head)
        status, body = ("500 No", b"{}") if len(heads) < 3 else ("200 OK", json.dumps(listed).encode())
        writer.write(http(status, body, "Content-Type: application/json"))
        await writer.drain()

    async with serving(answer) as config:
        await process.first(Settings(tmp_path), config)
    assert (len(heads), before) == (3, [])
    assert b"bulkhead.dev%2Fexposed-by%3Dproxy" in heads[-1]
    assert "team-a.k8s.example.org" in (tmp_path / "hosts.map").read_text()


async def test_before_the_first_list_it_does_not_take_the_host_for_one_without_tenants(tmp_path: Path) -> None:
    """HAProxy may have others from before, and goes on with them until the host's API answers."""
    listed = {"kind": "ServiceList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [service("team-a")]}
    before: list[Path] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        if b"watch=" in head:
            await asyncio.Event().wait()
        before.extend(tmp_path.iterdir())  # noqa: ASYNC240 - an empty folder
        writer.write(http("200 OK", json.dumps(listed).encode(), "Content-Type: application/json"))
        await writer.drain()

    async def written() -> bool:
        return (tmp_path / "haproxy.cfg").exists()

    settings = Settings(tmp_path, http_port=free_port())
    async with (
        serving(answer) as config,
        Client(config, user_agent="tests", field_manager="tests") as client,
        background(process.keep(settings, client)),
    ):
        await until(written, "the files of HAProxy")
    assert before == []
    assert "team-a.k8s.example.org" in (tmp_path / "hosts.map").read_text()
