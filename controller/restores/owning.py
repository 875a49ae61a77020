"""Makes the data of a snapshot a clone's own (`bulkhead.snapshots.cloning`), in the pod that fills its volume.

    etcd.db ──> etcdutl ──> an etcd on the loopback, which nothing else uses ──> each key judged ──> compacted ──> its file

Nothing of the plane runs on this data before. Every run begins with the file that was received, so a pod that dies begins
again; and it makes the same revisions each time, so that the members of a plane are alike. etcd need not write safely here:
what is made of its file is.
"""

import base64
import contextlib
import http.client
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bulkhead.snapshots.cloning import JUDGED, NAMES_ONLY, REGISTRY, WHOLE, CloneError, Cloning, Own

_PAGE: Final = 16  # objects, each up to 1.5 MiB
_ANSWER_SECONDS: Final = 300.0
_START_SECONDS: Final = 120.0
_STOP_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.1
_UNPACK_SECONDS: Final = 1800.0
_MOST_BYTES: Final = 16 << 30  # beyond every store that is taken
_WORDS: Final = 500


class OwningError(Exception):
    """The data was not made the clone's own; the message says why."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs, and the two ports of the loopback that etcd has meanwhile."""

    etcd: str
    etcdutl: str
    port: int
    peer_port: int


def own(file: Path, folder: Path, made: Own, tools: Tools) -> Path:
    """Unpack a snapshot's file into `folder`, make it the clone's own, and return the file of the store then.

    Raises OwningError, CloneError or OSError; `folder` may be left behind, and is removed first the next time.
    """
    shutil.rmtree(folder, ignore_errors=True)
    command = [tools.etcdutl, "snapshot", "restore", str(file), f"--data-dir={folder}", "--name=clone"]
    command += [f"--initial-cluster=clone={_peer(tools)}", f"--initial-advertise-peer-urls={_peer(tools)}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_UNPACK_SECONDS)
    if done.returncode:
        raise OwningError(f"etcdutl ended with {done.returncode}: {done.stderr.strip()[-_WORDS:]}")
    with _etcd(folder, tools) as store:
        _change(store, Cloning(made))
        store.forget()
    return folder / "member" / "snap" / "db"


def _change(store: "Store", cloning: Cloning) -> None:
    for scope in WHOLE:
        store.delete_below(f"{REGISTRY}{scope}")
    for scope in JUDGED:
        for key, value in store.under(f"{REGISTRY}{scope}", names_only=scope in NAMES_ONLY):
            verdict = cloning.judge(scope, key, value)
            if verdict.keep:
                continue
            if verdict.value is None:
                store.delete(key)
            else:
                store.put(key, verdict.value)


class Store:
    """The requests to that etcd, one after the other. They raise OwningError or OSError."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """One request to the JSON gateway."""
        try:
            self._connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            data = answer.read()
            found = json.loads(data)
        except (http.client.HTTPException, ValueError) as error:
            self._connection.close()
            raise OwningError(f"etcd answered {path} with something else than JSON") from error
        if answer.status != http.client.OK or not isinstance(found, dict):
            raise OwningError(f"etcd answered {path} with {answer.status}: {data[:_WORDS].decode('utf-8', 'replace')}")
        return found

    def under(self, prefix: str, *, names_only: bool = False) -> Iterator[tuple[str, bytes]]:
        """Every key below a prefix and its value, page by page; empty values if only names are asked for."""
        start, end = prefix.encode(), _after(prefix.encode())
        more = True
        while more:
            body = {"key": _coded(start), "range_end": _coded(end), "limit": str(_PAGE), "keys_only": names_only}
            found = self.ask("/v3/kv/range", body)
            page = [(base64.b64decode(kv["key"]), base64.b64decode(kv.get("value", ""))) for kv in found.get("kvs", ())]
            for key, value in page:
                yield key.decode(), value
            more = bool(found.get("more")) and bool(page)
            if page:
                start = page[-1][0] + b"\x00"

    def put(self, key: str, value: bytes) -> None:
        """Write one key."""
        self.ask("/v3/kv/put", {"key": _coded(key.encode()), "value": _coded(value)})

    def delete(self, key: str) -> None:
        """Delete one key."""
        self.ask("/v3/kv/deleterange", {"key": _coded(key.encode())})

    def delete_below(self, prefix: str) -> None:
        """Delete every key below a prefix."""
        self.ask("/v3/kv/deleterange", {"key": _coded(prefix.encode()), "range_end": _coded(_after(prefix.encode()))})

    def disarm(self) -> None:
        """End the alarms that came along: those of a store that was full."""
        for alarm in self.ask("/v3/maintenance/alarm", {"action": "GET"}).get("alarms", ()):
            self.ask("/v3/maintenance/alarm", {**alarm, "action": "DEACTIVATE"})

    def forget(self) -> None:
        """Leave nothing of what was there before, in no revision and on no free page of the file."""
        revision = self.ask("/v3/maintenance/status", {})["header"]["revision"]
        self.ask("/v3/kv/compaction", {"revision": revision, "physical": True})
        self.ask("/v3/maintenance/defragment", {})


@contextlib.contextmanager
def _etcd(folder: Path, tools: Tools) -> Iterator[Store]:
    client, log = f"http://127.0.0.1:{tools.port}", folder.parent / "etcd.log"
    command = [tools.etcd, "--name=clone", f"--data-dir={folder}", f"--listen-client-urls={client}"]
    command += [f"--advertise-client-urls={client}", f"--listen-peer-urls={_peer(tools)}"]
    command += [f"--initial-advertise-peer-urls={_peer(tools)}", f"--initial-cluster=clone={_peer(tools)}"]
    command += [
        f"--quota-backend-bytes={_MOST_BYTES}",
        "--max-request-bytes=16777216",
        "--unsafe-no-fsync",
        # As it ends it complains about each listener that it closes; what it says counts only if it does not start.
        "--log-level=error",
        f"--log-outputs={log}",
    ]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        store = Store(tools.port)
        try:
            _wait(store, lambda: process.poll() is not None, log)
            store.disarm()
            yield store
            process.send_signal(signal.SIGTERM)
            process.wait(_STOP_SECONDS)
        finally:
            store.close()
            process.kill()


def _wait(store: Store, ended: Callable[[], bool], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            store.ask("/v3/maintenance/status", {})
        except (OSError, OwningError) as error:
            if ended() or time.monotonic() > end:
                words = log.read_text(errors="replace")[-_WORDS:] if log.is_file() else str(error)
                raise OwningError(f"etcd did not start on the data of the snapshot: {words}") from error
        else:
            return
        time.sleep(_PAUSE_SECONDS)


def _peer(tools: Tools) -> str:
    return f"http://127.0.0.1:{tools.peer_port}"


def _after(prefix: bytes) -> bytes:
    """The first key after all that begin with a prefix, whose last byte is never the highest one."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


__all__ = ["CloneError", "OwningError", "Store", "Tools", "own"]
