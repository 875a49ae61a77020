"""Execs by WebSocket, as kubectl opens them, and a crowd of them in one pod, of which some run and the others are refused."""

import http.client
import json
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from e2e import machine, workloads
from e2e.api import Api, path_of
from e2e.chaos.canary import CONTROL_POD
from e2e.chaos.faults.crew import each_of
from e2e.chaos.faults.fault import Fault, Proof, Scene, of_pod, quietly
from e2e.tenants import Tenant
from e2e.workloads import expect

_BROKEN: Final = (OSError, http.client.HTTPException, ssl.SSLError)
_ERROR_CHANNEL: Final = 3
_HEADERS: Final = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: Y2hhb3MtY2hhb3MtY2hhbw==",
    "Sec-WebSocket-Protocol: v5.channel.k8s.io",
)
_POD: Final = "exec-crowd"
_ENTER_SECONDS: Final = 300.0


def messages(data: bytearray) -> Iterator[bytes]:
    """The contents of the whole frames at the beginning of `data`, which are taken away from it. Pure but for that.

    Control frames are left out: a close frame begins with a byte that looks like a channel's.
    """
    while len(data) >= 2:
        length, start = data[1] & 0x7F, 2
        if length >= 126:
            start = 4 if length == 126 else 10
            if len(data) < start:
                return
            length = struct.unpack("!H" if start == 4 else "!Q", data[2:start])[0]
        if len(data) < start + length:
            return
        content, control = bytes(data[start : start + length]), bool(data[0] & 0x08)
        del data[: start + length]
        if not control:
            yield content


@dataclass(slots=True)
class Session:
    """One exec. API servers accept the WebSocket before they ask the kubelet, whose refusal comes as a message."""

    connection: http.client.HTTPSConnection
    status: int = 0  # of the HTTP answer; 101: accepted
    ended: str = ""  # "success", or the API server's words when the exec ended or was refused
    code: int = 0  # of that; 200 for a success
    _data: bytearray = field(default_factory=bytearray)

    @classmethod
    def open(cls, api: Api, pod: str, command: Sequence[str], *, timeout: float = 30.0) -> "Session":
        """Open an exec and leave it open. Raises what the connection raises."""
        made = cls(api.connect(timeout=timeout))
        words = "&".join(f"command={quote(word)}" for word in command)
        path = f"{path_of('Pod', 'default', pod)}/exec?stdout=true&container=main&{words}"
        made.connection.connect()
        made.connection.sock.sendall("\r\n".join((f"GET {path} HTTP/1.1", f"Host: {api.host}", *_HEADERS, "", "")).encode())
        while b"\r\n\r\n" not in made._data:
            if not (part := made.connection.sock.recv(1 << 14)):
                raise ConnectionResetError("closed before the answer was whole")
            made._data += part
        head, _, rest = bytes(made._data).partition(b"\r\n\r\n")
        made._data = bytearray(rest)
        made.status = int(head.split(b" ", 2)[1])
        return made

    def look(self, seconds: float) -> None:
        """Read what has come, for at most so long, until the exec has ended."""
        end = time.monotonic() + seconds
        while not self.ended:
            for content in messages(self._data):
                if content[:1] == bytes([_ERROR_CHANNEL]):
                    self._end(content[1:])
                    return
            if (left := end - time.monotonic()) <= 0:
                return
            self.connection.sock.settimeout(left)
            try:
                part = self.connection.sock.recv(1 << 14)
            except TimeoutError:
                return
            except OSError as error:
                self.ended = f"cut off: {error}"
                return
            if not part:
                self.ended = "cut off"
                return
            self._data += part

    def _end(self, content: bytes) -> None:
        told = json.loads(content)
        success = told.get("status") == "Success"
        self.ended = "success" if success else str(told.get("message") or told)
        self.code = 200 if success else int(told.get("code") or 0)

    def close(self) -> None:
        self.connection.close()


@contextmanager
def _others_go_on(scene: Scene) -> Iterator[list[tuple[float, str]]]:
    """Until the block ends, one exec after another in a pod of each other tenant: the seconds that it took, and its error."""
    seen: list[tuple[float, str]] = []
    over = threading.Event()

    def go_on() -> None:
        turn = 0
        while not over.is_set() and scene.others:
            other = scene.others[turn % len(scene.others)]
            turn += 1
            begin = time.monotonic()
            error = _exec(other)
            seen.append((time.monotonic() - begin, error))
            over.wait(0.5)

    thread = threading.Thread(target=go_on, name="execs of others", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join(timeout=40)


def _exec(tenant: Tenant) -> str:
    """One exec that ends at once; its error."""
    try:
        session = Session.open(tenant.api, CONTROL_POD, ("true",))
    except _BROKEN as error:
        return f"{tenant.name}: {type(error).__name__}: {error}"
    try:
        session.look(20)
    finally:
        session.close()
    return "" if session.ended == "success" else f"{tenant.name}: HTTP {session.status}, {session.ended or 'no end'}"


@dataclass(frozen=True, slots=True)
class OpenExecs(Fault):
    """Hundreds of execs into one pod, open at the same time, while other tenants' execs have to go on."""

    sessions: int = 300
    seconds: float = 15.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        api = scene.target.api
        api.create(workloads.pod(_POD, workloads.pod_spec() | {"restartPolicy": "Never"}))
        virtual = workloads.wait_running(api, _POD, seconds=60)
        uid = of_pod(workloads.host_pod_of(scene.host, virtual, scene.target.work))
        held: list[Session] = []
        broken: list[str] = []

        def enter(_: int) -> None:
            try:
                held.append(Session.open(api, _POD, ("sleep", "299")))
            except _BROKEN as error:
                broken.append(type(error).__name__)

        try:
            with _others_go_on(scene) as others:
                each_of(range(self.sessions), enter, threads=8, seconds=_ENTER_SECONDS)
                time.sleep(self.seconds)
                inside = len(machine.processes_of_pod(uid, "sleep")) - 1
                for session in held:
                    session.look(0.02)
        finally:
            for session in held:
                session.close()
        # API servers of 1.36 pass on the words of a refusal alone.
        told = [session for session in held if session.status == 429 or "(429)" in session.ended]
        running = [session for session in held if session.status == 101 and not session.ended]
        ends = Counter(f"{session.code or session.status} {session.ended[:100]}".strip() for session in held if session.ended)
        others_failed = [error for _, error in others if error]
        slowest = max((seconds for seconds, _ in others), default=0.0)
        return [
            (
                len(running) > 0 and inside >= len(running) * 0.8,
                f"{len(running)} of {self.sessions} execs run, {inside} processes of theirs at the same time",
            ),
            (
                len(told) >= (self.sessions - len(running)) * 0.9,
                f"{len(told)} others were told 429; {len(broken)} got no answer; told most: {ends.most_common(2)}",
            ),
            (
                not scene.others or (bool(others) and not others_failed),
                f"{len(others)} execs of other tenants meanwhile, {len(others_failed)} failed, the slowest took {slowest:.1f} s"
                + (f"; {others_failed[0][:120]}" if others_failed else ""),
            ),
        ]

    def lift(self, scene: Scene) -> None:
        quietly(lambda: scene.target.api.delete("Pod", _POD, "default", grace=0))

    def over(self, scene: Scene) -> None:
        expect(scene.target.api.find("Pod", _POD, "default") is None, "the pod of the execs is there")
