"""The observer: a process of its own that watches the pods of every tenant and of the host, and writes a history.

It also counts GPUs in use, and requests that the host's API server rejects. It shares no code with controller
or syncer, and it changes nothing. It reaches every tenant's API by its ClusterIP with the tenant's kubeconfig, and the host
with the admin's. The prober measures how long requests take.

It looks less often at what takes long, so that it does not measure its own work: while 400 pods with 12,800 terms of affinity
stood, it took 40 % of a core, and the host's API server 32 % to answer it.
"""

import re
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

from e2e import names
from e2e.api import Api, ApiError, Obj, UnreachableError
from e2e.chaos import devices, uses
from e2e.chaos.history import LeaderSeen, PartSeen, PodGone, PodSeen, Rejected, Side
from e2e.chaos.recorder import Recorder, record

LIST_EVERY = 5.0
COUNT_EVERY = 5.0
# A look at something that took so long comes again after ten times as long; 30 s without a sighting count as blind.
REST_AFTER = 10.0
LONGEST_REST = 20.0
# What Bulkhead runs itself: the syncers' copies of tenants' pods carry the first label, too.
OWN_PODS = f"app.kubernetes.io/managed-by=bulkhead,{names.MIRRORED.replace('=', '!=')}"
PARTS_EACH = 10  # probes between two looks at the platform's containers
LEASE = "bulkhead-controller"
_REJECTED = re.compile(r'^apiserver_flowcontrol_rejected_requests_total\{[^}]*flow_schema="([^"]*)"[^}]*\} (\S+)', re.MULTILINE)


def rest(every: float, took: float) -> float:
    """Seconds until something is looked at again, which took so long. Pure."""
    return max(every, min(LONGEST_REST, took * REST_AFTER))


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
                begin = time.monotonic()
                version = self._refresh(tenant)
                every = rest(LIST_EVERY, time.monotonic() - begin)
                for event in self._api.watch("Pod", self._namespace, version=version, seconds=every, labels=self._labels):
                    self._note(event, tenant)
            except (ApiError, UnreachableError, TimeoutError):
                self._recorder.stop.wait(0.5)

    def _refresh(self, tenant: Callable[[Obj], str | None]) -> str:
        """Record all pods. Returns the version to watch from: an older event would be recorded as if it happened now."""
        asked = time.monotonic()
        current, version = self._api.snapshot("Pod", self._namespace, labels=self._labels)
        present = {item["metadata"]["uid"] for item in current}
        for item in current:
            self._seen(item, tenant(item), asked)
        for uid in set(self._known) - present:
            self._gone(uid)
        return version

    def _note(self, event: Obj, tenant: Callable[[Obj], str | None]) -> None:
        pod = event["object"]
        if event["type"] in {"ADDED", "MODIFIED"}:
            self._seen(pod, tenant(pod))
        elif event["type"] == "DELETED":
            self._gone(pod["metadata"]["uid"])

    def _seen(self, pod: Obj, tenant: str | None, asked: float = 0.0) -> None:
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
        self._recorder.add(PodSeen(time.monotonic(), self._side, tenant, uid, virtual_uid, name, deleting, refused, asked))

    def _gone(self, uid: str) -> None:
        tenant = self._known.pop(uid, None)
        if tenant is not None:
            self._recorder.add(PodGone(time.monotonic(), self._side, tenant, uid))


def watch_platform(recorder: Recorder, host: Api) -> None:
    """Restarts, replacements and memory kills of the platform's own containers, and the leader."""
    while not recorder.stop.is_set():
        begin = time.monotonic()
        try:
            for pod in host.list("Pod", labels=OWN_PODS):
                _note_parts(recorder, pod)
            for pod in host.list("Pod", names.SYSTEM_NAMESPACE):
                _note_parts(recorder, pod)
            lease = host.find("Lease", LEASE, names.SYSTEM_NAMESPACE)
            recorder.add(LeaderSeen(time.monotonic(), str((lease or {}).get("spec", {}).get("holderIdentity") or "")))
        except (ApiError, UnreachableError):
            pass  # the host's own probe records that it does not answer
        took = time.monotonic() - begin
        recorder.stop.wait(max(0.0, rest(PARTS_EACH * recorder.period, took) - took))


def _note_parts(recorder: Recorder, pod: Obj) -> None:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get("bulkhead.dev/managed-by") == "syncer":
        return
    tenant = labels.get("bulkhead.dev/tenant", "")
    readable = metadata["name"]
    for suffix in ("pod-template-hash",):  # a Deployment's pods have a different name after each replacement
        if suffix in labels:
            readable = readable.split(f"-{labels[suffix]}")[0]
    for container in pod.get("status", {}).get("containerStatuses") or []:
        ends = [container.get("lastState", {}).get("terminated"), container.get("state", {}).get("terminated")]
        killed = any(end and end.get("reason") == "OOMKilled" for end in ends)
        part = f"{metadata['namespace']}/{readable}/{container['name']}"
        count = int(container.get("restartCount", 0))
        recorder.add(PartSeen(time.monotonic(), tenant, part, metadata["uid"], count, killed))


def count_uses(recorder: Recorder, host: Api, tenants: Collection[str]) -> None:
    """GPUs of nodes, tenants' quotas and devices in use."""
    most: dict[str, int] = {}
    while not recorder.stop.is_set():
        begin = time.monotonic()
        try:
            nodes, pods = host.list("Node"), host.list("Pod")
            quotas = host.list("ResourceQuota")
        except (ApiError, UnreachableError):
            recorder.stop.wait(0.5)
            continue
        for node in nodes:
            most[node["metadata"]["name"]] = max(most.get(node["metadata"]["name"], 0), uses.allocatable(node))
        holders = devices.held({pod["metadata"]["uid"] for pod in pods if uses.gpus(pod)})
        for use in uses.counted(time.monotonic(), uses.Lists(nodes, pods, quotas, holders, most), tenants):
            recorder.add(use)
        took = time.monotonic() - begin
        recorder.stop.wait(max(0.0, rest(COUNT_EVERY, took) - took))


def count_rejections(recorder: Recorder, host: Api) -> None:
    """Requests that the host's API server rejected by priority and fairness. Without any, one record says that we looked."""
    while not recorder.stop.is_set():
        begin = time.monotonic()
        try:
            counts = rejections(host.text("/metrics"))
        except (ApiError, UnreachableError):
            recorder.stop.wait(0.5)
            continue
        for schema, count in (counts or {"": 0}).items():
            recorder.add(Rejected(time.monotonic(), schema, count))
        took = time.monotonic() - begin
        recorder.stop.wait(max(0.0, rest(COUNT_EVERY, took) - took))


def rejections(metrics: str) -> dict[str, int]:
    """Rejected requests by flow schema, from the metrics of an API server. Pure."""
    found: dict[str, int] = {}
    for schema, value in _REJECTED.findall(metrics):
        found[schema] = found.get(schema, 0) + int(float(value))
    return found


def watches(recorder: Recorder, apis: Mapping[str, Api], host: Api) -> Iterator[Callable[[], None]]:
    """One loop for each side and tenant, and one for the platform itself."""
    for name, api in apis.items():
        yield partial(PodWatch(recorder, api, "virtual", None, "").run, partial(_always, name))
    yield partial(PodWatch(recorder, host, "host", None, names.MIRRORED).run, partial(_tenant_of, frozenset(apis)))
    yield partial(watch_platform, recorder, host)
    yield partial(count_uses, recorder, host, tuple(apis))
    yield partial(count_rejections, recorder, host)


def _always(tenant: str, _pod: Obj) -> str:
    return tenant


def _tenant_of(known: frozenset[str], pod: Obj) -> str | None:
    namespace = pod["metadata"]["namespace"]
    tenant = str(namespace).removeprefix("bh-").removesuffix("-work")
    return tenant if tenant in known else None


if __name__ == "__main__":
    sys.exit(record("Observe tenants from outside and write a history.", watches))
