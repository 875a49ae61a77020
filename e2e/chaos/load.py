"""The light steady work of every tenant: two pods that stay, and one that comes and goes every few seconds.

The pods that stay show whether running pods keep running. The others show whether the whole life of a pod still works, from
create to Running to gone. Failures are counted and never raised: those of the target are expected, and the runner judges the
others.
"""

import threading
import time
from dataclasses import dataclass, field

from e2e import workloads
from e2e.api import ApiError, UnreachableError
from e2e.poll import NotYetError, WaitTimeoutError, until
from e2e.tenants import Tenant

STAYERS = ("stay-0", "stay-1")
PERIOD = 8.0


@dataclass(slots=True)
class Turn:
    """One pod that came and went."""

    begin: float
    end: float
    error: str = ""


@dataclass(slots=True)
class Load:
    """Runs one tenant's steady work in a thread until stopped."""

    tenant: Tenant
    turns: list[Turn] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        for name in STAYERS:
            if self.tenant.api.find("Pod", name, "default") is None:
                self.tenant.api.create(workloads.pod(name))
        for name in STAYERS:
            workloads.wait_running(self.tenant.api, name, seconds=60)
        self._thread = threading.Thread(target=self._run, name=f"load-{self.tenant.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=30)

    def errors(self, begin: float, end: float) -> list[str]:
        """The errors of the pods that were created within a window; a window without any such pod is an error too."""
        if not any(turn.begin < end and begin < turn.end for turn in self.turns):
            return [f"{self.tenant.name}: no pod came or went: not observed"]
        return [turn.error for turn in self.turns if turn.error and begin <= turn.begin < end]

    def _run(self) -> None:
        while not self._stop.is_set():
            begin = time.monotonic()
            # A new name for each pod: an interrupted run leaves its last pod behind.
            self.turns.append(self._turn(f"turn-{time.time_ns()}", begin))
            self._stop.wait(max(1.0, PERIOD - (time.monotonic() - begin)))

    def _turn(self, name: str, begin: float) -> Turn:
        api = self.tenant.api
        try:
            api.create(workloads.pod(name))
            workloads.wait_running(api, name, seconds=40, patience=1)
        except (ApiError, UnreachableError, WaitTimeoutError) as exc:
            error = f"{self.tenant.name}/{name}: {exc}"
        else:
            error = ""
        finally:
            self._remove(name)
        return Turn(begin, time.monotonic(), error)

    def _remove(self, name: str) -> None:
        def probe() -> None:
            there = self.tenant.api.delete("Pod", name, "default", grace=0)
            if there and not self._stop.is_set():
                raise NotYetError(f"pod {name} is still there")

        try:
            until(f"pod {name} to go", probe, seconds=90, interval=1.0, patience=1)
        except (ApiError, WaitTimeoutError) as exc:
            now = time.monotonic()
            self.turns.append(Turn(now, now, f"{self.tenant.name}/{name}: {exc}"))


def stayers(tenant: Tenant) -> dict[str, tuple[str, str, int]]:
    """Name -> (virtual UID, start time, restarts) of the pods that must keep running; read from the tenant's API."""
    found = {}
    for name in STAYERS:
        pod = tenant.api.get("Pod", name, "default")
        restarts = sum(int(item.get("restartCount", 0)) for item in pod.get("status", {}).get("containerStatuses") or [])
        found[name] = (pod["metadata"]["uid"], str(pod.get("status", {}).get("startTime")), restarts)
    return found
