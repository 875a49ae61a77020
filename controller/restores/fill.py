"""The program of the pod that fills one volume of a plane: `python -m controller.restores.fill`.

It imports nothing of ours, except for a clone: then `controller.restores.owning` makes the data its own before etcdutl does.

    one connection on loopback ──> restore-<uid>/etcd.db, its digest checked ──> etcdutl ──> restore-<uid>/data
                                        data ──> data-before-<uid>, then restore-<uid>/data ──> data, then `restored`

Only a port-forward by the host's API reaches the loopback. A second port opens once the volume is filled; the kubelet probes
that one. Every step can be repeated: a pod that dies goes on from what is on the volume, and what was not received whole is
received again. The old data is moved by one rename, after everything of the new data is on the disk.
"""

import argparse
import hashlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_DIGEST_BYTES: Final = 32
_CHUNK_BYTES: Final = 256 * 1024
_SILENCE_SECONDS: Final = 60.0
_UNPACK_SECONDS: Final = 1800.0
# etcd's log and snapshot beside the store; with less the new data may not fit.
_LOG_BYTES: Final = 160 << 20
_WORDS: Final = 500
_PAUSE_SECONDS: Final = 1.0
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class CloneOrder:
    """What makes the data that of a clone.

    service_slice, former_slice: where Services have addresses. cluster_uid: of the clone. keys: the folder with the keys of
    Secrets, `to` and `from`. etcd, port, peer_port: the program that changes the data meanwhile, on the loopback. slurm:
    whether the clone has a Slurm cluster.
    """

    service_slice: str
    former_slice: str
    cluster_uid: str
    keys: Path
    etcd: str
    port: int
    peer_port: int
    slurm: bool


class FillError(Exception):
    """The volume was not filled; the message says why. The old data is in its place."""


@dataclass(frozen=True, slots=True)
class Order:
    """What one pod does.

    restore: UID of the TenantRestore. size: bytes of the snapshot file. discard: whether the old data goes as soon as the file
    has arrived. member, peer, cluster, token: the etcd flags of this member.
    """

    volume: Path
    restore: str
    size: int
    bump: int
    member: str
    peer: str
    cluster: str
    token: str
    discard: bool
    etcdutl: str
    clone: CloneOrder | None = None


class Volume:
    """The volume of one member, and how far it is filled."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._home = order.volume / f"restore-{order.restore}"
        self._file = self._home / "etcd.db"
        self._made = self._home / "data"
        self._own = self._home / "own"
        self._complete = self._home / "complete"
        self._data = order.volume / "data"
        self._before = order.volume / f"data-before-{order.restore}"
        self._marker = order.volume / "restored"

    @property
    def filled(self) -> bool:
        """Whether the snapshot's data is in place."""
        return self._marker.is_file() and self._marker.read_text() == self.order.restore

    @property
    def received(self) -> bool:
        """Whether the file is here whole."""
        return self._file.is_file() or self._complete.is_file()

    @property
    def lacks_room(self) -> str:
        """Why the new data does not fit beside the old; empty if it does."""
        found = os.statvfs(self.order.volume)
        free = found.f_bavail * found.f_frsize + (_bytes_of(self._data) if self.order.discard else 0)
        free += _bytes_of(self._home)
        # The file, what is made of it, and what is made the clone's own in between.
        needed = (2 if self.order.clone is None else 3) * self.order.size + _LOG_BYTES
        if free >= needed:
            return ""
        no_way_but_one = self.order.discard or self.order.clone is not None
        way_out = "raise controlPlane.storage.size" if no_way_but_one else (
            "raise controlPlane.storage.size, or give up the present data: --discard-old-data"
        )  # fmt: skip
        return f"the volume of {self.order.member} has {free // _MIB} MiB free, and {-(-needed // _MIB)} are needed: {way_out}"

    def receive(self, source: socket.socket) -> None:
        """Take the file from a connection. Raises FillError or OSError; then there is no file."""
        self._home.mkdir(mode=0o700, exist_ok=True)
        part, digest, last, left = self._home / "etcd.db.part", hashlib.sha256(), b"", self.order.size
        with part.open("wb") as file:
            while left:
                chunk = source.recv(min(_CHUNK_BYTES, left))
                if not chunk:
                    raise FillError(f"the connection ended {left} bytes before the end")
                file.write(chunk)
                left -= len(chunk)
                held = last + chunk
                digest.update(held[:-_DIGEST_BYTES])
                last = held[-_DIGEST_BYTES:]
            if last != digest.digest():
                raise FillError("the store does not fit the digest that etcd wrote behind it")
            file.flush()
            os.fsync(file.fileno())
        part.rename(self._file)
        _sync(self._home)

    def fill(self) -> None:
        """Make data of the file, and put it in its place. Raises FillError or OSError."""
        if not self._complete.is_file():
            self._unpack()
        self._swap()

    def _unpack(self) -> None:
        order = self.order
        shutil.rmtree(self._made, ignore_errors=True)
        if order.discard:
            # The file is whole, and this was asked for: there is no room for both.
            shutil.rmtree(self._data, ignore_errors=True)
        file = self._file if order.clone is None else self._owned(order.clone)
        command = [order.etcdutl, "snapshot", "restore", str(file), f"--data-dir={self._made}", f"--name={order.member}"]
        if order.clone is not None:
            # A file of a data directory has no digest behind it.
            command += ["--skip-hash-check"]
        command += [f"--initial-cluster={order.cluster}", f"--initial-advertise-peer-urls={order.peer}"]
        command += [f"--initial-cluster-token={order.token}", f"--bump-revision={order.bump}", "--mark-compacted"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_UNPACK_SECONDS)
        if done.returncode:
            # Another attempt needs the file from its beginning.
            shutil.rmtree(self._home, ignore_errors=True)
            raise FillError(f"etcdutl ended with {done.returncode}: {done.stderr.strip()[-_WORDS:]}")
        shutil.rmtree(self._own, ignore_errors=True)
        for folder in (self._made, self._home):
            _sync_tree(folder)
        _write(self._complete, "")

    def _owned(self, clone: CloneOrder) -> Path:
        """The file of the store, made the clone's own. Raises FillError or OSError."""
        from bulkhead.snapshots.cloning import CloneError, Own  # noqa: PLC0415
        from controller.restores.owning import OwningError, Tools, own  # noqa: PLC0415

        former, key = ((clone.keys / name).read_text().strip() for name in ("from", "to"))
        made = Own(clone.service_slice, clone.former_slice, clone.cluster_uid, key=key, former_key=former, slurm=clone.slurm)
        try:
            return own(self._file, self._own, made, Tools(clone.etcd, self.order.etcdutl, clone.port, clone.peer_port))
        except (CloneError, OwningError) as error:
            raise FillError(str(error)) from error

    def _swap(self) -> None:
        if self._made.is_dir():
            if self._data.is_dir():
                self._data.rename(self._before)
            self._made.rename(self._data)
            _sync(self.order.volume)
        _write(self._marker, self.order.restore)
        for left in self.order.volume.glob("data-before-*"):
            if left != self._before:
                shutil.rmtree(left, ignore_errors=True)
        for left in self.order.volume.glob("restore-*"):
            shutil.rmtree(left, ignore_errors=True)


class Filler:
    """Serves one volume until the process ends."""

    def __init__(self, volume: Volume, port: int, ready_address: str, ready_port: int) -> None:
        self._volume = volume
        self._arriving = socket.create_server(("127.0.0.1", port), backlog=4)
        self._ready = (ready_address, ready_port)
        self._trouble = ""

    def run(self) -> None:
        """Fill the volume, then say that it is filled to everyone who asks."""
        while not self._volume.filled:
            if self._volume.received:
                self._fill()
            else:
                self._serve(*self._arriving.accept())
        _tell(f"filled: {self._volume.order.member}")
        with socket.create_server(self._ready, backlog=4) as ready, selectors.DefaultSelector() as waiting:
            for listener in (ready, self._arriving):
                waiting.register(listener, selectors.EVENT_READ, listener)
            while True:
                for key, _ in waiting.select():
                    asked: socket.socket = key.data
                    self._greet(asked.accept()[0], speaks=asked is self._arriving)

    def _fill(self) -> None:
        try:
            self._volume.fill()
        except (FillError, OSError, subprocess.SubprocessError) as error:
            self._fail(error)
            time.sleep(_PAUSE_SECONDS)

    def _serve(self, connection: socket.socket, _: Any) -> None:
        with connection:
            try:
                connection.settimeout(_SILENCE_SECONDS)
                short = self._volume.lacks_room
                _say(connection, state="no-room" if short else "waiting", error=short or self._trouble, of=self._volume.order)
                if short:
                    return
                self._volume.receive(connection)
                self._trouble = ""
                _say(connection, state="received", error="", of=self._volume.order)
            except (FillError, OSError) as error:
                self._fail(error)

    def _greet(self, connection: socket.socket, *, speaks: bool) -> None:
        with connection:
            try:
                connection.settimeout(1.0)
                if speaks:
                    _say(connection, state="filled", error="", of=self._volume.order)
            except OSError:
                return

    def _fail(self, error: Exception) -> None:
        self._trouble = str(error)[:_WORDS]
        _tell(f"not filled: {self._trouble}")


def _tell(words: str) -> None:
    sys.stderr.write(f"{words}\n")
    sys.stderr.flush()


def _say(connection: socket.socket, *, state: str, error: str, of: Order) -> None:
    line = {"restore": of.restore, "member": of.member, "bytes": of.size, "state": state, "error": error}
    connection.sendall(json.dumps(line).encode() + b"\n")


def _write(path: Path, text: str) -> None:
    """Write a small file in one step."""
    part = path.with_name(f"{path.name}.part")
    with part.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_tree(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            _sync(path)


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0


def read(arguments: Sequence[str]) -> tuple[Order, argparse.Namespace]:
    """The order in the arguments."""
    parser = argparse.ArgumentParser(prog="fill", allow_abbrev=False)
    for name in ("restore", "member", "peer", "cluster", "token"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("bytes", "bump", "port", "ready-port"):
        parser.add_argument(f"--{name}", required=True, type=int)
    parser.add_argument("--volume", required=True, type=Path)
    parser.add_argument("--ready-address", default="0.0.0.0")  # noqa: S104 - the kubelet probes the pod's address
    parser.add_argument("--etcdutl", default="/usr/local/bin/etcdutl")
    parser.add_argument("--discard", action="store_true")
    for name in ("clone-slice", "former-slice", "cluster-uid"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--keys", type=Path, default=Path("/keys"))
    parser.add_argument("--etcd", default="/usr/local/bin/etcd")
    for name in ("etcd-port", "etcd-peer-port"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--slurm", action="store_true")
    found = parser.parse_args(arguments)
    order = Order(
        volume=found.volume,
        restore=found.restore,
        size=found.bytes,
        bump=found.bump,
        member=found.member,
        peer=found.peer,
        cluster=found.cluster,
        token=found.token,
        discard=found.discard,
        etcdutl=found.etcdutl,
        clone=_clone(found) if found.clone_slice else None,
    )
    return order, found


def _clone(found: argparse.Namespace) -> CloneOrder:
    return CloneOrder(
        service_slice=found.clone_slice,
        former_slice=found.former_slice,
        cluster_uid=found.cluster_uid,
        keys=found.keys,
        etcd=found.etcd,
        port=found.etcd_port,
        peer_port=found.etcd_peer_port,
        slurm=found.slurm,
    )


def main() -> None:
    """Run until a signal ends it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    order, options = read(sys.argv[1:])
    Filler(Volume(order), options.port, options.ready_address, options.ready_port).run()


if __name__ == "__main__":
    main()
