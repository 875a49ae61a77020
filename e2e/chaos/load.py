"""The light steady work of every tenant: pods that stay, pods that come and go, writes, reads, watches, and Slurm jobs.

The pods that stay show whether running pods keep running. The others show whether the whole life of a pod still works, from
create to Running to gone. The writer keeps what was acknowledged (I3). Failures are recorded and never raised: those of the
target are expected, and the invariants judge the others.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from e2e import workloads
from e2e.api import ApiError, UnreachableError
from e2e.chaos import canary
from e2e.chaos.history import MISSING, Act, Read, Record, Write
from e2e.chaos.invariants import POD
from e2e.chaos.pace import FEW_TENANTS
from e2e.chaos.population import Member
from e2e.commands import CommandError
from e2e.poll import NotYetError, WaitTimeoutError, until
from e2e.slurm import jobs
from e2e.slurm.clusters import Cluster
from e2e.tenants import Tenant

TURN = "turn"
STAYERS = (canary.CONTROL_POD, "stay-gpu")
SPACE = "default"
KEYS = 4
WRITE_EVERY = 1.0
READ_EACH = 3  # one read after so many writes
WATCH_SECONDS = 15.0
JOB_EVERY = 30.0
REST_SECONDS = 90.0  # how long a pause waits for the work that is under way
_FAILED = (ApiError, UnreachableError, WaitTimeoutError, NotYetError)


def turn_period(tenants: int) -> float:
    """Seconds between two pods of one tenant: every pod costs the node some CPU, so more tenants have fewer each."""
    return 8.0 if tenants <= FEW_TENANTS else 4.0 * tenants


@dataclass(slots=True)
class Load:
    """Runs one tenant's steady work in threads until stopped."""

    tenant: Tenant
    member: Member
    period: float = 8.0
    slower: int = 1  # all periods are so many times as long
    records: list[Record] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _sooner: threading.Event = field(default_factory=threading.Event)
    _turn_at: float = math.inf  # of the next pod, if that is before its period is over
    _threads: list[threading.Thread] = field(default_factory=list)
    _locks: list[threading.Lock] = field(default_factory=list)  # held by work that writes
    _value: int = 0
    _acknowledged: int = 0

    def prepare(self) -> None:
        """The canary, the pods that stay, and the keys of the writer."""
        self._stay()
        # A run writes higher values than any earlier run: what it reads, it wrote itself.
        self._value = int(time.time())
        for _ in range(KEYS):
            self.write()

    def restore(self) -> None:
        """The canary and the pods that stay once more, if the tenant has lost its data."""
        if self.tenant.api.find("Secret", canary.NAME, SPACE) is None:
            for name in STAYERS:
                self._remove(name)
            self._stay()

    def _stay(self) -> None:
        api = self.tenant.api
        self.records.append(canary.plant(self.tenant))
        where = workloads.REAL if self.member.real_gpu else workloads.SIMULATED
        gpu_pod = workloads.pod_spec(("sleep", str(canary.STAY_SECONDS)), gpus=1, where=where)
        for name, spec in zip(STAYERS, (canary.pod_spec(self.tenant.name), gpu_pod), strict=True):
            if api.find("Pod", name, SPACE) is None:
                api.create(workloads.pod(name, spec))
        for name in STAYERS:
            workloads.wait_running(api, name, seconds=60)

    def start(self) -> None:
        works: list[tuple[str, Callable[[], None], float]] = [
            (TURN, self._turn, self.period),
            ("write", self._write_and_read, WRITE_EVERY),
            ("watch", self._watch, 0.0),
        ]
        if self.member.kind == "slurm":
            works.append(("job", self._job, JOB_EVERY))
        for kind, work, every in works:
            lock = threading.Lock()
            if kind != "watch":  # a watch writes nothing, so a pause need not wait for it
                self._locks.append(lock)
            name = f"{kind}-{self.tenant.name}"
            rest = self._rest_from_turns if kind == TURN else self._rest
            thread = threading.Thread(target=self._repeat, args=(work, every, lock, rest), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._sooner.set()

    def turn_within(self, seconds: float) -> None:
        """A pod comes and goes after so long, however long the period: each experiment needs one of each tenant."""
        self._turn_at = time.monotonic() + seconds
        self._sooner.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(timeout=30)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """No work of this tenant inside; what is under way ends first, within a limit."""
        deadline = time.monotonic() + REST_SECONDS
        held: list[threading.Lock] = []
        try:
            held += [lock for lock in self._locks if lock.acquire(timeout=max(0.1, deadline - time.monotonic()))]
            yield
        finally:
            for lock in held:
                lock.release()

    def write(self) -> None:
        """Write the next value to the next key, and record whether the API server acknowledged it."""
        self._value += 1
        value, key = self._value, f"chaos-kept-{self._value % KEYS}"
        begin = time.monotonic()
        try:
            self._put(key, value)
        except _FAILED:
            acknowledged = False
        else:
            acknowledged = True
        self._acknowledged += acknowledged
        self.records.append(Write(begin, self.tenant.name, key, value, time.monotonic(), acknowledged))

    def read_back(self, experiment: str) -> None:
        """Read all keys after an experiment. Raises what the API raises: a run has to know that nothing was read."""
        begin = time.monotonic()
        found = {item["metadata"]["name"]: item for item in self.tenant.api.list("ConfigMap", SPACE)}
        for number in range(KEYS):
            key = f"chaos-kept-{number}"
            self.records.append(Read(begin, self.tenant.name, key, _value_of(found.get(key)), experiment))

    def _put(self, key: str, value: int) -> None:
        api, data = self.tenant.api, {"value": str(value)}
        try:
            api.patch("ConfigMap", key, {"data": data}, SPACE)
        except ApiError as exc:
            if exc.status != 404:
                raise
            api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": key, "namespace": SPACE}, "data": data})

    def _write_and_read(self) -> None:
        self.write()
        if self._value % READ_EACH:
            return
        key, begin = f"chaos-kept-{self._value % KEYS}", time.monotonic()
        with contextlib.suppress(*_FAILED):
            self.records.append(Read(begin, self.tenant.name, key, _value_of(self.tenant.api.find("ConfigMap", key, SPACE))))

    def _repeat(self, work: Callable[[], None], every: float, lock: threading.Lock, rest: Callable[[float], None]) -> None:
        while not self._stop.is_set():
            begin = time.monotonic()
            with lock:
                work()
            rest(max(0.2, every * self.slower - (time.monotonic() - begin)))

    def _rest(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _rest_from_turns(self, seconds: float) -> None:
        """Rest for so long, or until a pod is asked for."""
        due = time.monotonic() + seconds
        # Cleared before the looks: what is asked for after them ends the wait.
        self._sooner.clear()
        while not self._stop.is_set() and (left := min(due, self._turn_at) - time.monotonic()) > 0:
            self._sooner.wait(left)
            self._sooner.clear()
        self._turn_at = math.inf

    def _note(self, kind: str, begin: float, error: str = "") -> None:
        self.records.append(Act(begin, self.tenant.name, kind, time.monotonic() - begin, error))

    def _turn(self) -> None:
        """One pod that comes and goes. Its name is new: an interrupted run leaves its last pod behind."""
        api, name, begin = self.tenant.api, f"turn-{time.time_ns()}", time.monotonic()
        error = ""
        try:
            api.create(workloads.pod(name))
            workloads.wait_running(api, name, seconds=40, patience=1)
        except _FAILED as exc:
            error = f"{self.tenant.name}/{name}: {exc}"
        finally:
            gone = self._remove(name)
        self._note(POD, begin, error or gone)

    def _remove(self, name: str) -> str:
        """Delete the pod and wait until it is gone. Returns the error, if there is one."""

        def probe() -> None:
            there = self.tenant.api.delete("Pod", name, SPACE, grace=0)
            if there and not self._stop.is_set():
                raise NotYetError(f"pod {name} is still there")

        try:
            until(f"pod {name} to go", probe, seconds=90, interval=1.0, patience=1)
        except _FAILED as exc:
            return f"{self.tenant.name}/{name}: {exc}"
        return ""

    def _watch(self) -> None:
        """A watch on the writer's keys: it must open, stay open, and show the writes that are acknowledged meanwhile."""
        api, begin, before, events, error = self.tenant.api, time.monotonic(), self._acknowledged, 0, ""
        try:
            version = api.collection_version("ConfigMap", SPACE)
            for event in api.watch("ConfigMap", SPACE, version=version, seconds=WATCH_SECONDS):
                events += event["type"] == "MODIFIED"
        except (*_FAILED, ValueError) as exc:
            error = f"{self.tenant.name}: watch: {exc}"
            self._stop.wait(1.0)
        written = self._acknowledged - before
        if not error and written > KEYS and not events:
            error = f"{self.tenant.name}: watch: none of {written} acknowledged writes was shown"
        self._note("watch", begin, error)

    def _job(self) -> None:
        cluster, begin, error = Cluster(self.tenant), time.monotonic(), ""
        try:
            jobs.wait(cluster, jobs.submit(cluster, "hostname"), seconds=60)
        except (*_FAILED, CommandError, AssertionError, OSError, ValueError) as exc:
            error = f"{self.tenant.name}: job: {str(exc)[:300]}"
        self._note("job", begin, error)


def stayers(tenant: Tenant) -> dict[str, tuple[str, str, int]]:
    """Name -> (virtual UID, start time, restarts) of the pods that must keep running; read from the tenant's API."""
    found = {}
    for name in STAYERS:
        pod = tenant.api.get("Pod", name, SPACE)
        restarts = sum(int(item.get("restartCount", 0)) for item in pod.get("status", {}).get("containerStatuses") or [])
        found[name] = (pod["metadata"]["uid"], str(pod.get("status", {}).get("startTime")), restarts)
    return found


def stopped(tenant: Tenant, before: dict[str, tuple[str, str, int]]) -> str:
    """Which of the pods that must keep running did not, and how they ended; empty if all of them went on."""
    now = stayers(tenant)
    return "; ".join(
        f"{name} was {before[name]} and is {now[name]}, ended before: {_ends(tenant, name)}"
        for name in now
        if now[name] != before[name]
    )


def _ends(tenant: Tenant, name: str) -> list[object]:
    """How the containers of a pod ended the last time."""
    status = tenant.api.get("Pod", name, SPACE).get("status", {})
    return [item.get("lastState") for item in status.get("containerStatuses") or []]


def _value_of(found: dict[str, object] | None) -> int:
    data = (found or {}).get("data")
    value = data.get("value", "") if isinstance(data, dict) else ""
    return int(value) if str(value).isdigit() else MISSING
