"""Which pods of this machine have which GPU devices, by the device files that their processes see.

One pass over /proc. Neither kubelet nor device plugin is asked.
"""

import contextlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_UID: Final = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
_DEVICE: Final = re.compile(r"nvidia\d+")


def held(pods: Collection[str], proc: Path = _PROC) -> dict[str, set[str]]:
    """Device -> UIDs of the pods, among those given, in which it is."""
    found: dict[str, set[str]] = {}
    seen: set[str] = set()
    for process in _processes(proc):
        with contextlib.suppress(OSError):
            match = _UID.search((process / "cgroup").read_text())
            if match is None or (uid := match[1].replace("_", "-")) not in pods or uid in seen:
                continue
            devices = {entry.name for entry in (process / "root" / "dev").iterdir() if _DEVICE.fullmatch(entry.name)}
            if devices:
                seen.add(uid)
            for device in devices:
                found.setdefault(device, set()).add(uid)
    return found


def _processes(proc: Path) -> Iterator[Path]:
    return (entry for entry in proc.iterdir() if entry.name.isdigit())
