"""A test on a machine that lacks something says so at its beginning: what needs it, and what to do. No wait is endless."""

import os
import socket
from collections import deque
from collections.abc import Callable

import pytest

from tests.kit import machine, ports


def told(ask: Callable[[], object]) -> str:
    """The reason why a test is skipped; empty if it is not skipped."""
    try:
        ask()
    except pytest.skip.Exception as skipped:
        return str(skipped)
    return ""


@pytest.mark.parametrize(("uid", "text"), [(0, ""), (1000, "sshd needs root: run it as root")])
def test_root(monkeypatch: pytest.MonkeyPatch, uid: int, text: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert told(lambda: machine.root("sshd")) == text


def test_programs_are_named_that_are_missing_and_no_others() -> None:
    assert told(lambda: machine.programs("sshd", "sh")) == ""
    assert told(lambda: machine.programs("sshd", "sh", "no-such-a", "no-such-b", instead="x")) == (
        "sshd needs no-such-a, no-such-b: x"
    )


@pytest.mark.parametrize(
    ("command", "text"), [("true", ""), ("false", "sshd needs namespaces of its own (`false` fails here)")]
)
def test_namespaces(monkeypatch: pytest.MonkeyPatch, command: str, text: str) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert told(lambda: machine.namespaces("sshd", command, instead="x")).removesuffix(": x") == text


def test_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unreachable(socket.socket):
        def connect(self, _: object) -> None:
            raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "socket", Unreachable)
    assert told(lambda: machine.address("a plane")).endswith("with a default route: Network is unreachable")


def test_ports_come_round_again_only_when_each_has_had_its_turn_and_their_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (busy,) = taken.getsockname()[1:]
        free = [ports.free_port() for _ in range(3)]
        monkeypatch.setattr(ports, "_ALL", [*free, busy])
        monkeypatch.setattr(ports, "_held", deque())
        for _ in range(9):
            assert sorted(ports.free_port() for _ in free) == sorted(free)
        monkeypatch.setattr(ports, "_ALL", [busy])
        monkeypatch.setattr(ports, "_held", deque())
        with pytest.raises(RuntimeError, match="tests need a free port of loopback"):
            ports.free_port()
