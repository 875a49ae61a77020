"""The program of a probe pod: `python3 -c TEXT ORDER`; it needs only Python 3.8.

It prints one line of JSON for each part of its order: what it sees of itself, whether it wrote a file, and repeatedly which of
its targets it could connect to. It sends no data over a connection, and ends by itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

_LIFE = 90.0
_PAUSE_SECONDS = 0.3
_CONNECT = 1.0
_DEVICES = ("nvidia[0-9]*", "nvidia-uvm*", "dri/*", "dxg", "kfd")


def tell(line: dict[str, Any]) -> None:
    """Print one line at once."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def read(path: str) -> str:
    """The content of a small file; empty if there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def facts() -> dict[str, Any]:
    """What the process sees of itself."""
    seccomp = re.search(r"^Seccomp:\s*([0-9]+)", read("/proc/self/status"), re.MULTILINE)
    first = next((line.split() for line in read("/proc/self/uid_map").splitlines()), ["0", "0", "0"])
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    bound = read("/sys/fs/cgroup/pids.max" if unified else "/sys/fs/cgroup/pids/pids.max").strip()
    return {
        "seccomp": int(seccomp.group(1)) if seccomp else 0,
        "root": int(first[1]),
        "cgroup": 2 if unified else 1,
        "pids": int(bound) if bound.isdigit() else None,
        "devices": sorted(str(path) for pattern in _DEVICES for path in Path("/dev").glob(pattern))[:32],
    }


def serve(port: int) -> None:
    """Accept and close connections forever."""
    listener = socket.socket(socket.AF_INET6 if Path("/proc/net/if_inet6").exists() else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("", port))
    listener.listen(64)

    def accept() -> None:
        while True:
            with contextlib.suppress(OSError):
                listener.accept()[0].close()

    threading.Thread(target=accept, daemon=True).start()


def attempt(target: list[Any], found: dict[str, bool], name: str) -> None:
    """Whether a connection succeeds."""
    try:
        socket.create_connection((target[0], target[1]), timeout=_CONNECT).close()
        found[name] = True
    except OSError:
        found[name] = False


def once(targets: dict[str, list[Any]]) -> dict[str, bool]:
    """Try all targets at the same time."""
    found: dict[str, bool] = {}
    threads = [threading.Thread(target=attempt, args=(target, found, name)) for name, target in targets.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def main(order: dict[str, Any]) -> None:
    """Carry out the order."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if order.get("facts"):
        tell({"facts": facts()})
    if order.get("write"):
        with Path(order["write"]).open("w", encoding="utf-8") as file:
            file.write("bulkhead")
            file.flush()
            os.fsync(file.fileno())
        tell({"wrote": read(order["write"]) == "bulkhead"})
    if order.get("serve"):
        serve(order["serve"])
    end = time.monotonic() + _LIFE
    number = 0
    while (order.get("serve") or order.get("try")) and time.monotonic() < end:
        number += 1
        if order.get("try"):
            tell({"round": number, "reached": once(order["try"])})
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
