"""Creates tenants and measures: ten one after another, ten at once, and the ten while idle."""

import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from e2e import tenants
from e2e.api import Api
from e2e.chaos.percentiles import percentile
from e2e.performance import memory

COUNT = 10
WINDOW = 60.0  # CPU time is taken over the last seconds of the idle time
READY_DEADLINE = 240.0
# The host's API server counts by flow schema, and the controller has its own.
_CONTROLLER = re.compile(
    r'^apiserver_flowcontrol_dispatched_requests_total\{flow_schema="bulkhead-controller",.*\} (\S+)$', re.MULTILINE
)

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Bench:
    """One run of the benchmark."""

    host: Api
    note: Note
    idle_seconds: float
    count: int = COUNT

    def run(self) -> dict[str, Any]:
        self._clear()
        try:
            single, removal, asked = self._one_after_another()
            together = self._at_once()
            idle = self._idle()
        finally:
            self._clear()
        return {
            "single_ready_s": {
                "p50": round(percentile(single, 50), 2),
                "p95": round(percentile(single, 95), 2),
                "all": [round(value, 2) for value in single],
            },
            "removed_s": {"p50": round(percentile(removal, 50), 2), "p95": round(percentile(removal, 95), 2)},
            "removal_requests": round(percentile(asked, 50)),
            "ten_at_once_all_ready_s": round(together, 2),
            **idle,
            "tenants": self.count,
            "idle_seconds": self.idle_seconds,
        }

    def _one_after_another(self) -> tuple[list[float], list[float], list[float]]:
        """Seconds until each is Ready, seconds until it is gone, and the controller's requests meanwhile."""
        ready, removed, asked = [], [], []
        for number in range(self.count):
            name = self._name(number)
            begin = time.monotonic()
            self.host.create(tenants.manifest(name, gpus=1))
            tenants.wait_ready(self.host, [name], seconds=READY_DEADLINE)
            ready.append(time.monotonic() - begin)
            before, begin = self._requests(), time.monotonic()
            tenants.remove(self.host, name)
            removed.append(time.monotonic() - begin)
            asked.append(self._requests() - before)
            self.note(
                f"tenant {number + 1}/{self.count}: Ready after {ready[-1]:.1f} s, gone after {removed[-1]:.1f} s"
                f" and {asked[-1]:.0f} requests"
            )
        return ready, removed, asked

    def _requests(self) -> float:
        """How many requests of the controller the host has admitted; raises LookupError if it counts none."""
        found = _CONTROLLER.findall(self.host.text("/metrics"))
        if not found:
            raise LookupError("the host's API server counts no request of the flow schema bulkhead-controller")
        return sum(map(float, found))

    def _at_once(self) -> float:
        begin = time.monotonic()
        wanted = [self._name(number) for number in range(self.count)]
        for name in wanted:
            self.host.create(tenants.manifest(name, gpus=1))
        seen = tenants.wait_ready(self.host, wanted, seconds=READY_DEADLINE)
        took = time.monotonic() - begin
        self.note(f"{self.count} at once: first Ready after {min(seen.values()):.1f} s, all after {took:.1f} s")
        return took

    def _idle(self) -> dict[str, Any]:
        wanted = [self._name(number) for number in range(self.count)]
        window = min(WINDOW, self.idle_seconds)
        self._wait(self.idle_seconds - window)
        before = {name: memory.footprint(self.host, name) for name in wanted}
        begin = time.monotonic()
        self._wait(window)
        after = {name: memory.footprint(self.host, name) for name in wanted}
        seconds = time.monotonic() - begin
        cpu = [memory.idle_percent(before[name], after[name], seconds) for name in wanted]
        cpu_parts = {part: round(statistics.mean(item[part] for item in cpu), 2) for part in cpu[0]}
        parts = {
            part: round(statistics.mean(item.parts_mib.get(part, 0.0) for item in after.values()), 1)
            for part in after[wanted[0]].parts_mib
        }
        return {
            "plane_pss_mib": round(statistics.mean(item.pss_mib for item in after.values()), 1),
            "plane_pss_parts_mib": parts,
            "plane_idle_cpu_percent": round(statistics.mean(sum(item.values()) for item in cpu), 2),
            "plane_idle_cpu_parts_percent": cpu_parts,
            "syncer_rss_mib": round(max(item.syncer_rss_mib for item in after.values()), 1),
            "controller_rss_mib": round(memory.controller_rss_mib(self.host), 1),
        }

    def _wait(self, seconds: float) -> None:
        """Idle, with a line of progress every half minute."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.note(f"idling, {left:.0f} s more")
            time.sleep(min(30.0, left))

    def _clear(self) -> None:
        """Remove all tenants of an earlier run or of this one, however it ended."""
        names = [self._name(number) for number in range(self.count)]
        for name in names:
            self.host.delete("Tenant", name)
        for name in names:
            tenants.wait_gone(self.host, name, seconds=180)

    @staticmethod
    def _name(number: int) -> str:
        return f"bench-{number}"
