"""A renewed certificate reaches the components that read it, and a host says when its certificates end."""

import datetime as dt
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import bulkhead
from tests.hostcluster.context import make_context
from tests.hostcluster.test_supervisor import ALIVE, House, _until
from workstation.cli import host
from workstation.cli.parsing import Parser
from workstation.hostcluster import cluster, configuration, machine_settings, pki, state
from workstation.hostcluster.component import Component, HostContext, HostOptions
from workstation.hostcluster.progress import Silent
from workstation.hostcluster.supervisor import Board, load_context, plan_of

DAY = 86400.0


def _whole(folder: Path) -> HostContext:
    ctx = make_context(folder)
    return replace(ctx, options=replace(ctx.options, nodes=2, registry=True))


def _named(ctx: HostContext, text: str) -> Iterator[Path]:
    for word in re.findall(rf"{re.escape(str(ctx.data_dir))}/[^\s\"',=:]+", text):
        if Path(word).is_file():
            yield Path(word)


def _credentials(ctx: HostContext, component: Component) -> set[Path]:
    """The certificates and kubeconfigs that a component's command or its configuration name."""
    named = set(_named(ctx, " ".join(component.argv)))
    for path in [path for path in named if path.suffix in {".yaml", ".yml", ".toml"}]:
        named |= set(_named(ctx, path.read_text()))
    return {path for path in named if path.suffix in {".crt", ".kubeconfig"} or path == ctx.kubeconfig}


def test_a_component_changes_with_every_certificate_and_kubeconfig_that_it_reads(tmp_path: Path) -> None:
    ctx = _whole(tmp_path)
    cluster._write_files(ctx, Silent())
    unchanged, holding = [], set()
    for component in plan_of(ctx):
        for path in sorted(_credentials(ctx, component)):
            holding.add(component.name)
            content = path.read_bytes()
            path.write_bytes(content + b"\n")
            if component in plan_of(ctx):
                unchanged.append((component.name, path.name))
            path.write_bytes(content)
    assert unchanged == []
    assert {"etcd", "kube-apiserver", "kubelet", "bulkhead-host-2/kubelet", "kube-proxy", "netpol", "registry"} <= holding


def test_a_renewed_certificate_is_news_for_a_running_supervisor(tmp_path: Path) -> None:
    ctx = _whole(tmp_path)
    cluster._write_files(ctx, Silent())
    generation = cluster._write_context(ctx)
    assert cluster._write_context(ctx) == generation
    (ctx.pki_dir / "apiserver.crt").write_bytes(b"renewed")
    assert cluster._write_context(ctx) != generation


def test_a_host_that_runs_says_that_its_certificates_were_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = make_context(tmp_path)
    told: list[str] = []

    class Telling(Silent):
        def warn(self, text: str) -> None:
            told.append(text)

    monkeypatch.setattr(machine_settings, "prepare", lambda _: None)
    monkeypatch.setattr(cluster, "prepare_nodes", lambda _: None)
    monkeypatch.setattr(configuration, "has_resolvers", lambda _: True)
    monkeypatch.setattr(cluster, "tell", lambda *_: None)
    living = state.HostState(1, "running", 0.0, state.options_to_json(ctx.options), release=bulkhead.__version__)
    cluster._renew(ctx, living, Telling())
    assert told == []
    monkeypatch.setattr(pki, "RENEW_BEFORE", dt.timedelta(days=365))
    cluster._renew(ctx, living, Telling())
    assert len(told) == 1
    assert "copy it again" in told[0]


async def test_the_supervisor_publishes_when_a_certificate_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    house = House(ctx, monkeypatch, Component("a", ("sleep", "60"), ALIVE))
    await _until(lambda: house.board.state.phase == "running")
    written = state.read(ctx.run_dir)
    await house.stop()
    assert written is not None
    assert written.certificates_end == pki.first_end(ctx) > time.time() + 300 * DAY


async def test_a_certificate_that_cannot_be_read_stops_no_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = make_context(tmp_path)
    pki.ensure_pki(ctx)
    (ctx.pki_dir / "ca.crt").write_text("")
    house = House(ctx, monkeypatch, Component("a", ("sleep", "60"), ALIVE))
    await _until(lambda: house.board.state.phase == "running")
    await house.stop()


@pytest.mark.parametrize(("days", "text", "code"), [(200, "", 0), (20, "certificates end (", 0), (-1, "have ended (", 1)])
def test_status_says_when_certificates_end(
    days: int, text: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = state.HostState(1, "running", 0.0, state.options_to_json(HostOptions()), certificates_end=time.time() + days * DAY)
    monkeypatch.setattr(cluster, "status", lambda: found)
    parser = Parser()
    host.add_arguments(parser)
    options = parser.parse_args(["status"])
    assert host._status(options.handler.request(options)) == code
    shown = capsys.readouterr().out
    assert text in shown
    assert ("`bulkhead host up` renews them" in shown) is bool(text)


def test_up_restores_what_the_machine_lost_under_a_running_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `systemctl restart nftables` removes the masquerading of pods, and nothing else brings it back."""
    ctx = make_context(tmp_path)
    steps: list[str] = []
    monkeypatch.setattr(machine_settings, "prepare", lambda _: steps.append("machine"))
    monkeypatch.setattr(cluster, "prepare_nodes", lambda _: steps.append("nodes"))
    monkeypatch.setattr(cluster, "tell", lambda *_: steps.append("supervisor"))
    living = state.HostState(1, "running", 0.0, state.options_to_json(ctx.options), release=bulkhead.__version__)
    cluster._renew(ctx, living, Silent())
    assert steps == ["machine", "nodes", "supervisor"]


def test_up_says_that_the_supervisor_is_of_an_earlier_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = make_context(tmp_path)
    told: list[str] = []
    report = Silent()
    monkeypatch.setattr(report, "warn", told.append)
    monkeypatch.setattr(machine_settings, "prepare", lambda _: None)
    monkeypatch.setattr(cluster, "prepare_nodes", lambda _: None)
    monkeypatch.setattr(configuration, "has_resolvers", lambda _: True)
    monkeypatch.setattr(cluster, "tell", lambda *_: None)
    for release in ("", "0.0.9", bulkhead.__version__):
        living = state.HostState(1, "running", 0.0, state.options_to_json(ctx.options), release=release)
        cluster._renew(ctx, living, report)
    assert [text.partition(", not ")[0].rpartition(" is of ")[2] for text in told] == ["an earlier release", "0.0.9"]
    assert Board(ctx, "one").state.release == bulkhead.__version__


def test_add_ons_start_with_the_interpreter_of_the_last_up(tmp_path: Path) -> None:
    ctx = replace(make_context(tmp_path), python="/moved/.venv/bin/python")
    cluster._write_context(ctx)
    assert load_context(ctx.run_dir)[0].python == ctx.python
    assert "/moved/.venv/bin/python" in {component.argv[0] for component in plan_of(load_context(ctx.run_dir)[0])}


def test_a_supervisor_passes_by_what_a_later_release_tells_it(tmp_path: Path) -> None:
    options = HostOptions(data_dir=tmp_path)
    assert state.options_from_json(state.options_to_json(options) | {"of_a_later_release": 1}) == options
