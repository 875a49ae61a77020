"""Processes of any runs beside each other never draw the same port, and a process that was killed holds none."""

import socket
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.kit import ports

_DRAWS = 200
_DRAW = f"""
import os, sys
from tests.kit.ports import free_port

def draw():
    return [free_port() for _ in range({_DRAWS})]

before = draw()
theirs, ours = os.pipe()
if os.fork():
    print(*before, *draw(), open(theirs).readline().strip(), flush=True)
else:
    print(*draw(), file=open(ours, "w"), flush=True)
sys.stdin.read()
"""


@contextmanager
def drawing() -> Iterator[subprocess.Popen[str]]:
    """A process that draws ports, forks, and draws again in both; they live until the block ends."""
    words = [sys.executable, "-c", _DRAW]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.communicate(timeout=60)


def drawn(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    return [int(port) for port in process.stdout.readline().split()]


def test_no_two_processes_draw_the_same_port() -> None:
    with ExitStack() as alive:
        processes = [alive.enter_context(drawing()) for _ in range(3)]
        found = [port for process in processes for port in drawn(process)]
        found += [ports.free_port() for _ in range(_DRAWS)]
    assert len(found) == 3 * 3 * _DRAWS + _DRAWS
    assert [port for port, times in Counter(found).items() if times > 1] == []


def test_no_connection_gets_what_was_drawn_and_its_server_does() -> None:
    port = ports.free_port()
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as connecting:
        with pytest.raises(OSError, match="Address already in use"):
            connecting.bind(("127.0.0.1", port))
        for _ in range(2):
            with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
                pass
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
        connecting.connect(there.getsockname())


def test_what_a_killed_process_held_can_be_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from tests.kit.ports import free_port; import sys; print(free_port(), flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        monkeypatch.setattr(ports, "_ALL", [port])
        monkeypatch.setattr(ports, "_held", deque())
        with pytest.raises(RuntimeError, match="are all taken"):
            ports.free_port()
        process.kill()
        process.wait()
        assert ports.free_port() == port


def test_a_process_that_holds_many_begins_again_with_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_held", deque())
    monkeypatch.setattr(ports, "_AT_MOST", 3)
    first = [ports.free_port() for _ in range(3)]
    assert [ports.free_port() for _ in range(6)] == first * 2
