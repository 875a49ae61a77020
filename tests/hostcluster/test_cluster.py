"""Decisions of `up`, `down` and `status` that need no host."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.hostcluster.context import make_context
from workstation.cli import host
from workstation.cli.parsing import Parser
from workstation.hostcluster import cluster, imports, state
from workstation.hostcluster.component import HostOptions
from workstation.hostcluster.node import Node
from workstation.hostcluster.progress import Silent


def _state(pid: int, options: HostOptions, phase: state.HostPhase = "running") -> state.HostState:
    components = [state.ComponentState("etcd", "ready", 7, 2, time.time(), "", "/logs/etcd.log")]
    return state.HostState(pid, phase, time.time(), state.options_to_json(options), "g", "", components)


def test_the_state_survives_its_file(tmp_path: Path) -> None:
    written = _state(1, HostOptions(data_dir=tmp_path, simulated_nodes=9))
    state.write(written, tmp_path)
    assert state.read(tmp_path) == written
    assert state.options_from_json(written.options) == HostOptions(data_dir=tmp_path, simulated_nodes=9)
    assert state.read(tmp_path / "nothing") is None


def test_a_host_whose_supervisor_is_gone_is_shown_as_failed(tmp_path: Path) -> None:
    state.write(_state(os.getpid(), HostOptions(data_dir=tmp_path)), tmp_path)
    found = cluster.status(tmp_path)
    assert found is not None
    assert (found.phase, found.components[0].phase, found.components[0].pid) == ("failed", "stopped", 0)
    assert "bulkhead host up" in found.error


def test_another_data_folder_is_refused_while_a_host_lives(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    living = _state(1, HostOptions(data_dir=tmp_path / "other"))
    with pytest.raises(cluster.HostError, match="run `bulkhead host down` first"):
        cluster._renew(ctx, living, Silent())
    assert not ctx.pki_dir.exists()


def test_waiting_names_what_failed(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    failed = _state(5, ctx.options, "failed")
    failed.error = "etcd: no space; log /logs/etcd.log ends with: disk full"
    state.write(failed, ctx.run_dir)
    with pytest.raises(cluster.HostError, match=r"start failed: etcd: no space; log /logs/etcd\.log"):
        cluster._await_running(ctx, 5, "g", Silent())


def test_only_root_may_change_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(cluster.HostError, match="must run as root"):
        cluster.up(HostOptions(), Silent())


def test_the_lock_is_taken_again_when_a_down_removed_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(cluster, "_LOCK", tmp_path / "lock")
    looks = iter([False, True])
    monkeypatch.setattr(cluster, "_same_file", lambda *_: next(looks))
    with cluster.exclusive(Silent()):
        assert list(looks) == []


def test_what_the_host_writes_for_pods_they_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(cluster, "_LOCK", tmp_path / "lock")
    earlier = os.umask(0o077)
    try:
        with cluster.exclusive(Silent()):
            inside = subprocess.run(["sh", "-c", "umask"], capture_output=True, text=True, check=True).stdout.strip()
        after = os.umask(0o077)
    finally:
        os.umask(earlier)
    assert (inside, after) == ("0022", 0o077)


def test_images_are_imported_once(tmp_path: Path) -> None:
    ctx = make_context(tmp_path)
    calls = tmp_path / "calls"
    ctr = tmp_path / "ctr"
    ctr.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    ctr.chmod(0o755)
    object.__setattr__(ctx, "binaries", {"ctr": ctr})
    image = tmp_path / "busybox-0123.tar"
    image.write_bytes(b"tar")
    assert imports.import_images(Node(ctx), [image], Silent()) == [image]
    assert imports.import_images(Node(ctx), [image], Silent()) == []
    assert len(calls.read_text().splitlines()) == 1


def _parse(*words: str) -> Any:
    """The request that these words become."""
    parser = Parser()
    host.add_arguments(parser)
    options = parser.parse_args(words)
    return options.handler.request(options)


def test_options_are_read() -> None:
    request = _parse("up", "--simulated-nodes", "0", "--gpus-per-node=4", "--data-dir=/srv/host")
    options = request.options
    assert (options.simulated_nodes, options.gpus_per_node, options.data_dir) == (0, 4, Path("/srv/host"))
    assert (request.same_nodes, request.slurm) == (True, False)


@pytest.mark.parametrize(
    "words",
    [("up", "--simulated-nodes=-1"), ("up", "--gpus-per-node=many"), ("up", "--data-dir=here"), ("up", "--data-dir=/"), ()],
)
def test_impossible_options_are_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        _parse(*words)
    assert ended.value.code == 2


def test_status_as_a_table_and_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cluster, "status", lambda: _state(3, HostOptions()))
    assert host._status(_parse("status")) == 0
    text = capsys.readouterr().out
    for part in ("host: running", "COMPONENT", "etcd", "ready", "/logs/etcd.log"):
        assert part in text
    assert host._status(_parse("status", "-o", "json")) == 0
    assert json.loads(capsys.readouterr().out)["components"][0]["restarts"] == 2


def test_status_of_nothing_says_how_to_start(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cluster, "status", lambda: None)
    assert host._status(_parse("status")) == 1
    assert "bulkhead host up" in capsys.readouterr().out


def test_a_folder_with_other_files_is_refused_as_data_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(cluster.HostError, match="contains other files"):
        cluster._own_data_dir(tmp_path)
    cluster._own_data_dir(tmp_path / "new")
    cluster._own_data_dir(tmp_path / "new")
