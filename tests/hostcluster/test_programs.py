"""A program that takes too long is an error that says what to do; one slow look at a node is one look only."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.hostcluster.context import make_context
from workstation.cli import host
from workstation.hostcluster import cluster, programs
from workstation.hostcluster.addons import objects
from workstation.hostcluster.node import Node

# The first look hangs, the second one says that the node is ready.
KUBECTL = """#!/bin/sh
if mkdir "{folder}/looked" 2>/dev/null; then exec sleep 60; fi
echo "True ready"
"""


class Told:
    """What was reported."""

    def __init__(self) -> None:
        self.details: list[str] = []

    def step(self, text: str) -> None:
        raise AssertionError(text)

    def detail(self, text: str) -> None:
        self.details.append(text)

    def warn(self, text: str) -> None:
        raise AssertionError(text)


def test_a_program_that_takes_too_long_is_an_error_with_its_words() -> None:
    with pytest.raises(RuntimeError, match="`sleep 60` did not end in 0 s; the machine may be too busy"):
        programs.ended(["sleep", "60"], 0.05)


def test_a_program_gets_its_input_and_gives_its_output_and_exit_code() -> None:
    done = programs.ended(["sh", "-c", "cat; echo bad >&2; exit 3"], 20, stdin="in")
    assert (done.stdout, done.stderr, done.returncode) == ("in", "bad\n", 3)
    assert programs.ended(["sh", "-c", "cat; echo $WORD"], 20, environment={"WORD": "set"}).stdout == "set\n"


def test_a_look_at_a_node_that_takes_too_long_is_not_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(KUBECTL.format(folder=tmp_path))
    kubectl.chmod(0o755)
    monkeypatch.setattr(cluster, "_LOOK_SECONDS", 0.5)
    made = make_context(tmp_path)
    told = Told()
    cluster.await_node(Node(replace(made, binaries={**made.binaries, "kubectl": kubectl})), told)
    assert len(told.details) == 1
    assert "did not end" in told.details[0]


def test_a_proxy_of_the_environment_is_not_asked_for_the_host_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As kubectl takes HTTPS_PROXY for 172.31.255.1 too, and the proxy leads elsewhere."""
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\necho "$NO_PROXY $no_proxy" >> {tmp_path}/seen\necho "True ready"\n')
    kubectl.chmod(0o755)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.org:3128")
    monkeypatch.setenv("NO_PROXY", "example.org")
    monkeypatch.delenv("no_proxy", raising=False)
    made = make_context(tmp_path)
    ctx = replace(made, binaries={**made.binaries, "kubectl": kubectl})
    cluster.await_node(Node(ctx), Told())
    objects._kubectl(ctx, "get", "nodes")
    assert (tmp_path / "seen").read_text().splitlines() == ["example.org,172.31.255.1 172.31.255.1"] * 2


@pytest.mark.parametrize("proxy", ["", "http://proxy.example.org:3128"])
def test_up_names_the_proxy_that_kubectl_would_ask(
    proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    if proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
    ctx = make_context(tmp_path)
    monkeypatch.setattr(cluster, "up", lambda *_, **__: cluster.HostHandle(ctx.kubeconfig, ctx))
    assert host._up(host.UpRequest(ctx.options, same_nodes=False, slurm=False)) == 0
    assert ("NO_PROXY has 172.31.255.1" in capsys.readouterr().out) is bool(proxy)
