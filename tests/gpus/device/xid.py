"""An error of the GPU as the collector exports it: a process reads memory that is not its own, and the next process works."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from bulkhead.gpus import fields
from workstation.hostcluster.gpu.nvml import Nvml
from workstation.hostcluster.gpu.reading import samples_of

# A process' own mistake: an exception of a kernel, a page that is not there. And what may follow as the driver ends it.
_OF_A_PROCESS: Final = (13.0, 31.0, 43.0, 45.0)
_MOST_EVENTS: Final = 100
_WAIT_SECONDS: Final = 10.0
_QUIET_SECONDS: Final = 1.0


def check(library: Any, role: Callable[[str], dict[str, Any]]) -> tuple[bool | None, dict[str, Any]]:
    """The numbers that the metric had, in their order."""
    collector = Nvml(library)
    try:
        before = _exported(collector)
        events = _listen(library)
        with ThreadPoolExecutor(1) as threads:
            fault, seen, took = _watch(collector, threads.submit(role, "fault"), before)
        queued = _queued(library, events)
        following = role("control")
        stays = _exported(collector)
    finally:
        collector.close()
    works = following.get("written_words", -1) == following.get("found_words")
    found = {
        "before": before,
        "fault": fault,
        "xids": seen,
        "events": queued,
        "seconds_after_the_process": took,
        "after_the_next_process": stays,
        "next_process_works": works,
        "next_process": following,
    }
    return verdict(before, fault, seen, works), found


def verdict(before: float | None, fault: dict[str, Any], seen: list[float | None], works: bool) -> bool | None:
    """None if the GPU reports no errors or none was made."""
    if before is None or not fault.get("faulted"):
        return None
    return before == 0 and bool(seen) and all(value in _OF_A_PROCESS for value in seen) and works


def _watch(
    collector: Nvml, running: "Future[dict[str, Any]]", before: float | None
) -> tuple[dict[str, Any], list[float | None], float | None]:
    """What the process printed, each number of the metric, and when the first came: negative while the process ran."""
    first: float | None = None
    ended: float | None = None
    seen: list[float | None] = []
    while ended is None or time.monotonic() < (ended + _WAIT_SECONDS if first is None else max(first, ended) + _QUIET_SECONDS):
        value = _exported(collector)
        if value != before and value not in seen:
            first = time.monotonic() if first is None else first
            seen.append(value)
        if ended is None and running.done():
            ended = time.monotonic()
        time.sleep(0.01)
    return running.result(), seen, None if first is None else round(first - ended, 2)


def _listen(library: Any) -> Any:
    """A second set of events, which tells of every error where the metric has the last."""
    try:
        events = library.nvmlEventSetCreate()
        library.nvmlDeviceRegisterEvents(library.nvmlDeviceGetHandleByIndex(0), library.nvmlEventTypeXidCriticalError, events)
    except library.NVMLError:
        return None
    return events


def _queued(library: Any, events: Any) -> list[int]:
    found: list[int] = []
    try:
        while events is not None and len(found) < _MOST_EVENTS:
            found.append(int(library.nvmlEventSetWait_v2(events, 500).eventData))
    except library.NVMLError:
        pass  # no further one came
    return found


def _exported(collector: Nvml) -> float | None:
    samples = samples_of(collector.read()[0], "this-machine")
    return next((sample.value for sample in samples if sample.name == fields.XID), None)
