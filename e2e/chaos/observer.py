"""The observer: a process of its own that probes and watches, and writes a history. It changes nothing but its own ConfigMap.

It is neither controller nor syncer and shares no code with them. Every tenant's API is reached by its ClusterIP through the
tenant's kubeconfig, the host through the admin's. A thread per probe and per watch; all records go through one queue to one
writer, so that a slow disk delays no probe. It ends when told to (SIGTERM) or after its deadline.

    python -m e2e.chaos.observer --out FILE --seconds N TENANT=KUBECONFIG…
"""

import argparse
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from e2e.api import Api, ApiError, Obj, UnreachableError
from e2e.chaos.history import HOST, LeaderSeen, PartSeen, PodGone, PodSeen, Probe, Record, Side, to_line
from e2e.machine import host_api

PROBE_EVERY = 0.25
WRITE_EACH = 4  # one probe in four writes
LIST_EVERY = 5.0
PROBE_TIMEOUT = 5.0
_NICENESS = -10
MARK = "chaos-observer"
SYNCED = "bulkhead.dev/managed-by=syncer"
SYSTEM = "bulkhead-system"
LEASE = "bulkhead-controller"


class Recorder:
    """Collects records of all threads and writes them, one line each."""

    def __init__(self, path: Path) -> None:
        self._queue: queue.Queue[Record] = queue.Queue(maxsize=100_000)
        self._path = path
        self.stop = threading.Event()

    def add(self, record: Record) -> None:
        self._queue.put(record, timeout=5)

    def write(self, seconds: float) -> None:
        """Write until told to stop, and then what is left."""
        deadline = time.monotonic() + seconds
        with self._path.open("w") as out:
            while not (self.stop.is_set() and self._queue.empty()) and time.monotonic() < deadline:
                try:
                    out.write(to_line(self._queue.get(timeout=0.2)) + "\n")
                except queue.Empty:
                    out.flush()
        self.stop.set()


def probe(recorder: Recorder, tenant: str, api: Api) -> None:
    """Read and write as a tenant would, at a steady rate, and note what each request took."""
    namespace = "default"
    count = 0
    while not recorder.stop.is_set():
        begin = time.monotonic()
        count += 1
        writes = count % WRITE_EACH == 0
        error = _attempt(lambda: _write(api, namespace, count) if writes else _read(api, namespace))  # noqa: B023
        took = time.monotonic() - begin
        recorder.add(Probe(begin, tenant, "write" if writes else "read", took, error))
        recorder.stop.wait(max(0.0, PROBE_EVERY - took))


def _read(api: Api, namespace: str) -> None:
    api.list("Pod", namespace)


def _write(api: Api, namespace: str, count: int) -> None:
    api.patch("ConfigMap", MARK, {"data": {"count": str(count)}}, namespace)


def prepare(api: Api) -> None:
    """The one object that the observer writes."""
    if api.find("ConfigMap", MARK, "default") is None:
        api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MARK, "namespace": "default"}})


def _attempt(call: Callable[[], object]) -> str:
    try:
        call()
    except (ApiError, UnreachableError) as exc:
        return str(exc)[:300]
    return ""


class PodWatch:
    """Follows the pods of one side of one tenant by listing and watching; a positive list refreshes what is alive."""

    def __init__(self, recorder: Recorder, api: Api, side: Side, namespace: str | None, labels: str) -> None:
        self._recorder = recorder
        self._api = api
        self._side: Side = side
        self._namespace = namespace
        self._labels = labels
        self._known: dict[str, str] = {}  # pod UID -> tenant

    def run(self, tenant: Callable[[Obj], str | None]) -> None:
        while not self._recorder.stop.is_set():
            try:
                version = self._api.collection_version("Pod", self._namespace)
                self._refresh(tenant)
                for event in self._api.watch("Pod", self._namespace, version=version, seconds=LIST_EVERY, labels=self._labels):
                    self._note(event, tenant)
            except (ApiError, UnreachableError, TimeoutError):
                self._recorder.stop.wait(0.5)

    def _refresh(self, tenant: Callable[[Obj], str | None]) -> None:
        current = self._api.list("Pod", self._namespace, labels=self._labels)
        present = {item["metadata"]["uid"] for item in current}
        for item in current:
            self._seen(item, tenant(item))
        for uid in set(self._known) - present:
            self._gone(uid)

    def _note(self, event: Obj, tenant: Callable[[Obj], str | None]) -> None:
        pod = event["object"]
        if event["type"] in {"ADDED", "MODIFIED"}:
            self._seen(pod, tenant(pod))
        elif event["type"] == "DELETED":
            self._gone(pod["metadata"]["uid"])

    def _seen(self, pod: Obj, tenant: str | None) -> None:
        if tenant is None:
            return
        metadata = pod["metadata"]
        uid = metadata["uid"]
        virtual_uid = uid if self._side == "virtual" else (metadata.get("labels") or {}).get("bulkhead.dev/virtual-uid", "")
        self._known[uid] = tenant
        conditions = pod.get("status", {}).get("conditions") or []
        refused = any(item["type"] == "PodScheduled" and item["status"] == "False" for item in conditions)
        deleting = bool(metadata.get("deletionTimestamp"))
        name = metadata["name"]
        self._recorder.add(PodSeen(time.monotonic(), self._side, tenant, uid, virtual_uid, name, deleting, refused))

    def _gone(self, uid: str) -> None:
        tenant = self._known.pop(uid, None)
        if tenant is not None:
            self._recorder.add(PodGone(time.monotonic(), self._side, tenant, uid))


def watch_platform(recorder: Recorder, host: Api) -> None:
    """Restarts, replacements and memory kills of the platform's own containers, and who leads."""
    while not recorder.stop.is_set():
        begin = time.monotonic()
        try:
            for pod in host.list("Pod", labels="app.kubernetes.io/managed-by=bulkhead"):
                _note_parts(recorder, pod)
            for pod in host.list("Pod", SYSTEM):
                _note_parts(recorder, pod)
            lease = host.find("Lease", LEASE, SYSTEM)
            recorder.add(LeaderSeen(time.monotonic(), str((lease or {}).get("spec", {}).get("holderIdentity") or "")))
        except (ApiError, UnreachableError):
            pass  # the host's own probe records that it does not answer
        recorder.stop.wait(max(0.0, 1.0 - (time.monotonic() - begin)))


def _note_parts(recorder: Recorder, pod: Obj) -> None:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get("bulkhead.dev/managed-by") == "syncer":
        return
    tenant = labels.get("bulkhead.dev/tenant", "")
    readable = metadata["name"]
    for suffix in ("pod-template-hash",):  # a Deployment's pods differ in name with every replacement
        if suffix in labels:
            readable = readable.split(f"-{labels[suffix]}")[0]
    for container in pod.get("status", {}).get("containerStatuses") or []:
        ends = [container.get("lastState", {}).get("terminated"), container.get("state", {}).get("terminated")]
        killed = any(end and end.get("reason") == "OOMKilled" for end in ends)
        part = f"{metadata['namespace']}/{readable}/{container['name']}"
        count = int(container.get("restartCount", 0))
        recorder.add(PartSeen(time.monotonic(), tenant, part, metadata["uid"], count, killed))


def observe(out: Path, seconds: float, tenants: dict[str, Path]) -> int:
    """Run all probes and watches until told to stop."""
    recorder = Recorder(out)
    # What it measures is how long others take, not how long it waits for a core that the fault's generator holds.
    os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    signal.signal(signal.SIGTERM, lambda *_: recorder.stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner stops us in its own order
    apis = {name: Api(path, timeout=PROBE_TIMEOUT) for name, path in tenants.items()}
    host = host_api(timeout=PROBE_TIMEOUT)
    for api in (*apis.values(), host):
        prepare(api)
    threads = [threading.Thread(target=probe, args=(recorder, name, api), daemon=True) for name, api in apis.items()]
    threads.append(threading.Thread(target=probe, args=(recorder, HOST, host), daemon=True))
    for name, api in apis.items():
        watch = PodWatch(recorder, api, "virtual", None, "")
        threads.append(threading.Thread(target=watch.run, args=(lambda _pod, name=name: name,), daemon=True))
    watch = PodWatch(recorder, host, "host", None, SYNCED)
    threads.append(threading.Thread(target=watch.run, args=(lambda pod: _tenant_of(pod, set(tenants)),), daemon=True))
    threads.append(threading.Thread(target=watch_platform, args=(recorder, host), daemon=True))
    for thread in threads:
        thread.start()
    recorder.write(seconds)
    return 0


def _tenant_of(pod: Obj, known: set[str]) -> str | None:
    namespace = pod["metadata"]["namespace"]
    tenant = str(namespace).removeprefix("bh-").removesuffix("-work")
    return tenant if tenant in known else None


def main() -> int:
    parser = argparse.ArgumentParser(description="Observe tenants from outside and write a history.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("tenants", nargs="+", metavar="TENANT=KUBECONFIG")
    chosen = parser.parse_args()
    tenants = dict(item.split("=", 1) for item in chosen.tenants)
    return observe(chosen.out, chosen.seconds, {name: Path(path) for name, path in tenants.items()})


if __name__ == "__main__":
    sys.exit(main())
