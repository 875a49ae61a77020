"""What a GPU's metrics still show of a process that has ended, and for how long.

It is what `SETTLE_SECONDS` of bulkhead/gpus/attribution.py is about: the next pod's samples must not be the last pod's work.
The collector reads every 100 ms while a process loads the GPU and after it has ended, by itself or by SIGKILL. Seconds count
from when the process is gone, as a kubelet sees it.
"""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.gpus import fields
from workstation.hostcluster.gpu.nvml import Nvml
from workstation.hostcluster.gpu.reading import samples_of

# The default of bulkhead/gpus/attribution.py, which Python 3.10 cannot import; a test compares them.
SETTLE_SECONDS: Final = 60.0
STEP_SECONDS: Final = 0.1
_IDLE_SECONDS: Final = 4.0
_LOAD_SECONDS: Final = 15.0
_START_SECONDS: Final = 15.0
# How long to watch for each way to end, and for how long all must be back to stop earlier.
_WATCH: Final = {"by itself": 45.0, "SIGKILL": 25.0}
_QUIET_SECONDS: Final = 5.0
# dcgm-exporter measures every 30 s by default, so a sample can be that old beside what NVML itself averages.
_EXPORTER_SECONDS: Final = 30.0
# How far from its idle value a field may be and still count as back.
NEAR: Final = {
    fields.UTILISATION: 2.0,
    fields.COPY_UTILISATION: 2.0,
    fields.MEMORY_USED: 64.0,
    fields.MEMORY_FREE: 64.0,
    fields.POWER: 10.0,
    fields.SM_CLOCK: 60.0,
    fields.MEMORY_CLOCK: 60.0,
    fields.TEMPERATURE: 2.0,
}
# These tell of work, and decide; the others tell of the board, and are reported.
DECIDING: Final = (fields.UTILISATION, fields.COPY_UTILISATION, fields.MEMORY_USED, fields.MEMORY_FREE)

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Moment:
    """One reading, `at` seconds after the process was gone; what NVML names of the process itself, in bytes, if it does."""

    at: float
    values: Values
    process: int | None = None


def back_after(moments: Sequence[Moment], name: str, idle: float) -> float | None:
    """Seconds until a field was back for good; None if it was not when the watch ended."""
    after = [moment for moment in moments if moment.at >= 0 and name in moment.values]
    if not after or abs(after[-1].values[name] - idle) > NEAR[name]:
        return None
    away = [index for index, moment in enumerate(after) if abs(moment.values[name] - idle) > NEAR[name]]
    return round(after[away[-1] + 1].at if away else 0.0, 2)


def shown(moments: Sequence[Moment], name: str, idle: float) -> bool:
    """Whether the field told of the process in the last three seconds of its life: the control."""
    before = [moment.values[name] for moment in moments if -3 <= moment.at < 0 and name in moment.values]
    return bool(before) and abs(statistics.median(before) - idle) > NEAR[name]


def quiet(moments: Sequence[Moment], idle: Values) -> bool:
    """Whether every field has been back for long enough to stop watching."""
    if not moments or moments[-1].at < _QUIET_SECONDS:
        return False
    last = [moment for moment in moments if moment.at >= moments[-1].at - _QUIET_SECONDS]
    return all(abs(moment.values[name] - idle[name]) <= NEAR[name] for moment in last for name in idle if name in moment.values)


class _Watch:
    """Readings of the first GPU."""

    def __init__(self, collector: Nvml, library: Any) -> None:
        self._collector, self._library = collector, library
        self._device = library.nvmlDeviceGetHandleByIndex(0)

    def values(self) -> Values:
        found = {sample.name: sample.value for sample in samples_of(self._collector.read()[0], "this-machine")}
        return {name: found[name] for name in NEAR if name in found}

    def process(self, identity: int) -> int | None:
        """The memory that NVML names for a process; -1 if it names the process and no memory."""
        try:
            listed = self._library.nvmlDeviceGetComputeRunningProcesses(self._device)
        except self._library.NVMLError:
            return None
        used = {int(one.pid): one.usedGpuMemory for one in listed}
        return None if identity not in used else -1 if used[identity] is None else int(used[identity])

    def idle(self) -> Values:
        """The median of the last seconds before anything runs."""
        until, seen = time.monotonic() + _IDLE_SECONDS, []
        while time.monotonic() < until:
            seen.append(self.values())
            time.sleep(STEP_SECONDS)
        last = seen[len(seen) // 2 :]
        return {name: statistics.median(one[name] for one in last if name in one) for name in last[-1]}

    def run(self, how: str, idle: Values) -> tuple[list[Moment], dict[str, Any]]:
        """Load the GPU until the process ends in this way, and watch on."""
        command = [sys.executable, "-m", "tests.gpus.device.cuda", "load", str(_LOAD_SECONDS if how == "by itself" else 60.0)]
        # The order of NVML, so that both mean the same GPU.
        environment = os.environ | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        raw: list[tuple[float, Values, int | None]] = []
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as load:
            began = time.monotonic()
            working: float | None = None
            killed: float | None = None
            while load.poll() is None:
                now = time.monotonic()
                raw.append((now, self.values(), self.process(load.pid)))
                if working is None and abs(raw[-1][1][fields.MEMORY_USED] - idle[fields.MEMORY_USED]) > 1024:
                    working = now
                over = now - began > _START_SECONDS + _LOAD_SECONDS
                if killed is None and (over or (how == "SIGKILL" and working is not None and now - working > _LOAD_SECONDS)):
                    load.send_signal(signal.SIGKILL)
                    killed = now
                time.sleep(STEP_SECONDS)
            gone = time.monotonic()
            moments = [Moment(at - gone, values, process) for at, values, process in raw]
            while (now := time.monotonic() - gone) < _WATCH[how] and not quiet(moments, idle):
                moments.append(Moment(now, self.values(), self.process(load.pid)))
                time.sleep(STEP_SECONDS)
        about = {
            "exit": load.returncode,
            "worked_seconds": None if working is None else round(gone - working, 1),
            "gone_after_signal": None if killed is None else round(gone - killed, 2),
            "watched_seconds": round(moments[-1].at, 1),
            "readings": len(moments),
        }
        return moments, about


def told_of(moments: Sequence[Moment], idle: Values) -> dict[str, Any]:
    """One row for each field, and what NVML reported of the process."""
    loaded = [moment for moment in moments if -3 <= moment.at < 0]
    rows = {}
    for name, rest in idle.items():
        values = [moment.values[name] for moment in loaded if name in moment.values]
        rows[name] = {
            "idle": rest,
            "loaded": round(statistics.median(values), 1) if values else None,
            "near": NEAR[name],
            "shown_while_it_ran": shown(moments, name, rest),
            "back_after_seconds": back_after(moments, name, rest),
            "last": moments[-1].values.get(name),
        }
    named = [moment for moment in moments if moment.process is not None]
    process = {
        "named_while_it_ran": any(moment.at < 0 for moment in named),
        "bytes": max((moment.process or 0 for moment in named), default=None),
        "named_until_seconds_after": round(max((moment.at for moment in named), default=0.0), 2),
    }
    return {"fields": rows, "process": process}


def verdict(found: Sequence[Mapping[str, Any]]) -> bool | None:
    """Whether what decides is back in time for the first sample that counts; None if the load did not show."""
    rows = [rows["fields"].get(name, {}) for rows in found for name in DECIDING]
    if not rows or not all(row.get("shown_while_it_ran") for row in rows):
        return None
    lags = [row["back_after_seconds"] for row in rows]
    return all(lag is not None and lag + _EXPORTER_SECONDS <= SETTLE_SECONDS for lag in lags)


def check(library: Any) -> tuple[bool | None, dict[str, Any]]:
    """Both ways to end."""
    collector = Nvml(library)
    try:
        watch = _Watch(collector, library)
        idle = watch.idle()
        found: dict[str, Any] = {"settle_seconds": SETTLE_SECONDS, "exporter_seconds": _EXPORTER_SECONDS}
        for how in _WATCH:
            moments, about = watch.run(how, idle)
            found[how] = about | told_of(moments, idle)
    finally:
        collector.close()
    return verdict([found[how] for how in _WATCH]), found
