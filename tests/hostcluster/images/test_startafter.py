"""What starts a controller manager once its API server is healthy: the program itself, built here, and what it starts."""

import json
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.kit.pki import Authority
from tests.kit.startafter import build
from workstation.hostcluster.images import slack, startafter

pytestmark = pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go to build it with")

NAME = "kube-controller-manager"


class Server:
    """An API server that starts: it refuses connections, then answers with `status`."""

    def __init__(self, folder: Path) -> None:
        authority = Authority("of-the-plane")  # which the program does not know
        cert, key = authority.issue("api", addresses=("127.0.0.1",))
        (folder / "serving.pem").write_bytes(cert + key)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder / "serving.pem")
        self.status = 500
        self.heads: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.heads.append(f"{self.path} {self.headers}")
                self.send_response(outer.status)
                self.send_header("Location", "https://127.0.0.1:1/")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.server.server_bind()
        self.port = self.server.server_address[1]

    def listen(self) -> None:
        self.server.server_activate()
        self.server.socket = self.context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def asked(self, times: int) -> None:
        end = time.monotonic() + 60
        while len(self.heads) < times:
            assert time.monotonic() < end, "nothing asks"
            time.sleep(0.01)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.server.server_close()


def built(tmp_path: Path, server: Server, longest: str = "120s") -> Path:
    """The program, with the address, the folder and the time of a test in it."""
    folder = tmp_path / "libexec"
    folder.mkdir(exist_ok=True)
    script = '#!/bin/sh\ncat /proc/$$/timerslack_ns; echo "$0" "$@" "$GREETING"; echo $$\n'
    (folder / NAME).write_text(script)
    (folder / NAME).chmod(0o755)
    return build(tmp_path / NAME, health=f"https://127.0.0.1:{server.port}/healthz", folder=folder, longest=longest)


def started(program: Path, *arguments: str) -> subprocess.Popen[str]:
    # A proxy of the environment is not for loopback of the own pod.
    environment = {"PATH": "/usr/bin:/bin", "GREETING": "hello", "HTTPS_PROXY": "http://127.0.0.1:1"}
    return subprocess.Popen(
        [program, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip


def test_it_waits_until_the_api_server_is_healthy_and_becomes_the_program(tmp_path: Path, server: Server) -> None:
    with started(built(tmp_path, server), "--v=1", "a b") as process:
        server.listen()
        server.asked(3)
        assert process.poll() is None, "it answers and is not healthy"
        server.status = 302
        server.asked(len(server.heads) + 3)
        assert process.poll() is None, "a redirect is not an answer"
        server.status = 200
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    ns, line, pid = out.splitlines()
    assert (int(ns), line) == (slack.SLACK_NS, f"{tmp_path / 'libexec' / NAME} --v=1 a b hello")
    assert int(pid) == process.pid, "the same process, so that it gets the kubelet's signals"
    assert "healthy: true" in err
    assert {head.split()[0] for head in server.heads} == {"/healthz"}
    assert "authorization" not in json.dumps(server.heads).lower()


def test_it_waits_no_longer_than_it_may(tmp_path: Path, server: Server) -> None:
    with started(built(tmp_path, server, "1s")) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "hello" in out
    assert "healthy: false" in err


def test_it_ends_when_it_is_told_to_while_it_waits(tmp_path: Path, server: Server) -> None:
    with started(built(tmp_path, server)) as process:
        server.listen()
        server.asked(1)
        process.terminate()
        assert process.wait(60) != 0


def test_a_program_that_is_not_there_is_no_success(tmp_path: Path, server: Server) -> None:
    program = built(tmp_path, server, "0s")
    (tmp_path / "libexec" / NAME).unlink()
    with started(program) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 127
    assert f"libexec/{NAME}: no such file" in err


def test_the_image_has_it_before_the_controller_manager_alone(tmp_path: Path) -> None:
    found = {entry.path: entry.content for entry in startafter.entries(NAME, tmp_path / NAME, tmp_path / "waits")}
    assert found == {f"usr/local/bin/{NAME}": tmp_path / "waits", f"usr/local/libexec/{NAME}": tmp_path / NAME}
