"""One HAProxy and its keeper: kept at what the Services say, also after a start from older files."""

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest

from frontdoor.haproxy import Limits
from frontdoor.keeper import Keeper, write_files
from frontdoor.routes import routes
from frontdoor.settings import Settings
from tests.frontdoor.test_routes import service
from tests.kit.ports import free_port
from tests.kit.proxying import FEW, answering, plane, proxy, start, stopped_at_the_end, write


async def test_it_keeps_haproxy_at_what_the_services_say(tmp_path: Path) -> None:
    listed = [service("team-a"), service("team-b")]
    async with proxy(tmp_path, []) as made:
        keeper = Keeper(Settings(tmp_path, limits=FEW), lambda: listed)
        assert not keeper.answered
        await keeper.compare()
        assert keeper.answered
        running = await made.runtime.running()
        assert running.servers == {"team-a": ("10.112.4.1:443", 0), "team-b": ("10.112.4.1:443", 0)}
        assert running.hosts == {"team-a.k8s.example.org": "team-a", "team-b.k8s.example.org": "team-b"}
        assert (tmp_path / "hosts.map").read_text().count("\n") == 2
        listed.pop()
        await keeper.compare()
        assert set((await made.runtime.running()).hosts) == {"team-a.k8s.example.org"}
        assert b"bulkhead_proxy_routes 1.0" in generate_latest()


async def test_an_haproxy_that_starts_from_older_files_is_brought_up(tmp_path: Path) -> None:
    port = free_port()
    write(tmp_path, [], FEW, port)
    keeper = Keeper(Settings(tmp_path, limits=FEW), lambda: [service("team-a")])
    with stopped_at_the_end(start(tmp_path, port)) as made:
        await answering(made)
        await keeper.compare()
    await keeper.compare()
    assert not keeper.answered
    write(tmp_path, [], FEW, port)
    with stopped_at_the_end(start(tmp_path, port)) as made:
        await answering(made)
        await keeper.compare()
        assert set((await made.runtime.running()).servers) == {"team-a"}


async def test_what_the_keeper_writes_haproxy_starts_from(tmp_path: Path) -> None:
    settings = Settings(tmp_path, limits=Limits(connections=1000, threads=1))
    write_files(settings, routes([service("team-a")]))
    text = (tmp_path / "haproxy.cfg").read_text()
    (tmp_path / "haproxy.cfg").write_text(text.replace(":8443", f"127.0.0.1:{free_port()}").replace(":8404", f":{free_port()}"))
    with stopped_at_the_end(start(tmp_path, 0)) as made:
        await answering(made)
        running = await made.runtime.running()
        assert (set(running.servers), set(running.hosts)) == ({"team-a"}, {"team-a.k8s.example.org"})


async def test_refusals_are_reported_by_tenant_and_by_reason(tmp_path: Path) -> None:
    async with plane("team-a", tmp_path) as a, proxy(tmp_path, [a.route]) as made:
        await made.raw(b"no hello")
        here: list[dict[str, Any]] = [service("team-a")]
        await Keeper(Settings(tmp_path, limits=FEW), lambda: here).compare()
        assert b'bulkhead_proxy_refused_total{reason="no-hello",tenant=""} 1.0' in generate_latest()


async def test_a_text_that_would_be_two_commands_is_never_said(tmp_path: Path) -> None:
    async with proxy(tmp_path, []) as made:
        with pytest.raises(ValueError, match="not one command"):
            await made.runtime.say("show info; shutdown sessions server planes/x")
