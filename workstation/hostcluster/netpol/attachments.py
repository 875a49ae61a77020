"""Which pod has which address, known as soon as the CNI plugin assigns it: before the pod's first process starts.

The API learns a pod's address only after its containers run, so the pod would be without rules for a second. The CNI library
writes a file for each attachment, which names the pod. This module reads that folder and follows its changes by inotify. It
never writes there. An unreadable file counts as absent: its address stays unknown, and unknown addresses are blocked.
"""

import asyncio
import ctypes
import json
import os
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from bulkhead.kube.objects import Key

RESULTS = Path("/var/lib/cni/results")
_IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_DELETE = 0x8, 0x80, 0x200
_IN_NONBLOCK, _IN_CLOEXEC = 0o4000, 0o2000000
_EVENTS = 64 * 1024


def attachment(document: Mapping[str, Any]) -> tuple[Key, IPv4Address] | None:
    """Pod and address of one result file; None for loopback devices and for files without a pod."""
    arguments = {one[0]: one[1] for one in document.get("cniArgs") or ()}
    namespace, name = arguments.get("K8S_POD_NAMESPACE"), arguments.get("K8S_POD_NAME")
    addresses = (document.get("result") or {}).get("ips") or ()
    for one in addresses:
        try:
            address = IPv4Address(one["address"].partition("/")[0])
        except (KeyError, ValueError):
            continue
        if namespace and name and not address.is_loopback:
            return Key(namespace, name), address
    return None


class Attachments:
    """The folder's content, kept up to date."""

    def __init__(self, folder: Path = RESULTS) -> None:
        self._folder = folder
        self._read: dict[str, tuple[int, tuple[Key, IPv4Address] | None]] = {}

    def addresses(self) -> dict[Key, IPv4Address]:
        """Address of each attached pod; if a pod has two attachments, the newer counts."""
        found: dict[str, tuple[int, tuple[Key, IPv4Address] | None]] = {}
        try:
            entries = list(os.scandir(self._folder))
        except FileNotFoundError:
            entries = []
        for entry in entries:
            known = self._read_one(Path(entry.path))
            if known is not None:
                found[entry.name] = known
        self._read = found
        ordered = sorted(found.values(), key=lambda one: one[0])
        return {one[0]: one[1] for _, one in ordered if one is not None}

    def _read_one(self, path: Path) -> tuple[int, tuple[Key, IPv4Address] | None] | None:
        try:
            written = path.stat().st_mtime_ns
            held = self._read.get(path.name)
            if held is not None and held[0] == written:
                return held
            return written, attachment(json.loads(path.read_bytes()))
        except (OSError, ValueError, AttributeError):
            return None

    def watch(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call back at each change; returns a function that stops it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        library = ctypes.CDLL(None, use_errno=True)
        descriptor = library.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        mask = _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_DELETE
        if descriptor < 0 or library.inotify_add_watch(descriptor, os.fsencode(self._folder), mask) < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"inotify on {self._folder}: {os.strerror(number)}")
        loop = asyncio.get_running_loop()

        def drained() -> None:
            # The events themselves do not matter, because the folder is read again; so an overflowed queue does not matter
            # either.
            try:
                os.read(descriptor, _EVENTS)
            except BlockingIOError:
                return
            on_change()

        def stop() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)

        loop.add_reader(descriptor, drained)
        return stop
