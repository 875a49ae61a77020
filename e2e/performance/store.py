"""What the programs of a plane use, depending on the size of its store: the figures behind their memory limits.

    python -m e2e.performance.store [--quota 512] [--small 200000] [--free]       (make bench NAME=store)

    large   ConfigMaps of 0.96 MB until etcd's quota stops them        small   as many small ConfigMaps as are asked for
    then, of each: everything listed by six clients at once, in pages and whole; all killed and started again; the API server
    killed three times while clients list again; after everything was deleted, the file compacted.

etcd, kube-apiserver and kube-controller-manager run as plain processes with a plane's own flags and environment. As root, each
runs in a control group with its own memory limit, so that a limit that is too low shows as a killed program. `--free` lifts the
limits and shows what the programs would use. Samples are anonymous memory (RssAnon), taken every 20 ms: the kernel frees the
pages of files when another process needs them.
"""

import argparse
import base64
import contextlib
import http.client
import json
import os
import ssl
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from controller.plane.spec import API_SERVER, ETCD_HTTP_PORT, PlaneSpec
from tests.kit.planeprocess import ETCD, KCM, POD_IP, PROGRAMS, PlaneProcesses, Watch
from tests.kit.tenantsamples import plane_for, tenant, tenant_class

RESULTS: Final = Path("build/results/store.json")
SPACE: Final = "default"
LARGE: Final = 960_000
CLIENTS: Final = 6
_PATH: Final = f"/api/v1/namespaces/{SPACE}/configmaps"
_LISTS: Final = ("/api/v1/configmaps?limit=500", "/api/v1/configmaps")
_PUTS: Final = 100  # in one transaction
_QUIET_SECONDS: Final = 8.0
_START_SECONDS: Final = 180.0


class Run:
    """One plane, and a row for each action on it."""

    def __init__(self, plane: PlaneProcesses) -> None:
        self.plane = plane
        self.rows: list[dict[str, Any]] = []
        self._context = plane.admin.ssl_context()
        # The first addresses in its certificate are loopback's, not this machine's.
        self._etcd = ssl.create_default_context(cafile=str(plane.folder / "pki-etcd" / "ca.crt"))
        self._etcd.check_hostname = False
        client = plane.folder / "pki-apiserver"
        self._etcd.load_cert_chain(client / "etcd-client.crt", client / "etcd-client.key")

    @contextlib.contextmanager
    def row(self, name: str) -> Iterator[dict[str, Any]]:
        """The highest use of each program meanwhile, and the programs that ended."""
        made: dict[str, Any] = {"what": name}
        begin, before = time.monotonic(), len(self.plane.kills)
        with Watch(self.plane) as watch:
            yield made
            made["seconds"] = round(time.monotonic() - begin, 1)
        made["most_mib"] = {program: round(most) for program, most in watch.most.items()}
        time.sleep(1.0)  # a process that is being killed is not gone yet
        # As a kubelet restarts it; a program that ended because it waited in vain for another one was not killed.
        self.plane.start()
        made["killed"] = self.plane.kills[before:]
        made["data_mib"] = self.data_mib()
        self.rows.append(made)
        print(line(made), flush=True)

    def data_mib(self) -> int:
        """The size of etcd's file."""
        file = self.plane.folder / ETCD / "data" / "member" / "snap" / "db"
        return file.stat().st_size >> 20 if file.exists() else 0

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> int:
        """One request to the API server; its status."""
        data = json.dumps(body).encode() if body is not None else None
        url = f"{self.plane.admin.server}{path}"
        return _open(url, self._context, method, data)[0]

    def etcd(self, path: str, body: Mapping[str, Any]) -> bytes:
        """One request to etcd, bypassing the API server."""
        url = f"https://{POD_IP}:{self.plane.ports[ETCD_HTTP_PORT]}/v3/{path}"
        status, answer = _open(url, self._etcd, "POST", json.dumps(body).encode())
        if status != 200:
            raise RuntimeError(f"etcd: {path}: {status}: {answer[:200]!r}")
        return answer


def _open(url: str, context: ssl.SSLContext | None, method: str, data: bytes | None) -> tuple[int, bytes]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    asked = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})  # noqa: S310 -- https
    try:
        with opener.open(asked, timeout=120) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def fill_large(run: Run, most: int) -> int:
    """Create large ConfigMaps until one is refused; the number that was accepted."""
    filling = base64.b64encode(os.urandom(LARGE * 3 // 4)).decode()
    taken = 0
    for number in range(most):
        text = base64.b64encode(os.urandom(24)).decode() + filling[: LARGE - 32]
        body = {"metadata": {"name": f"large-{number}"}, "data": {"text": text}}
        if run.call("POST", _PATH, body) != 201:
            break
        taken += 1
    return taken


def fill_small(run: Run, count: int) -> int:
    """Small ConfigMaps as kubectl creates them, but written into etcd: through the API it would take an hour."""
    for begin in range(0, count, _PUTS):
        puts = [{"requestPut": _small(number)} for number in range(begin, min(begin + _PUTS, count))]
        run.etcd("kv/txn", {"success": puts})
    return count


def _small(number: int) -> dict[str, str]:
    fields: dict[str, Any] = {"f:data": {".": {}, "f:a": {}}}
    manager = {
        "manager": "kubectl-create",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    when = "2026-06-01T00:00:00Z"
    meta = {
        "name": f"small-{number}",
        "namespace": SPACE,
        "uid": f"{number:08d}-1111-2222-3333-444444444444",
        "creationTimestamp": when,
        "managedFields": [manager | {"time": when}],
    }
    value = json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": {"a": "x" * 100}})
    key = f"/registry/configmaps/{SPACE}/small-{number}"
    return {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value.encode()).decode()}


def lists(run: Run, when: str) -> None:
    """Everything, by several clients at once."""

    def ask(path: str) -> str:
        try:
            run.plane.get(path, timeout=120)
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        return ""

    for path in _LISTS:
        with run.row(f"{when}: {CLIENTS} x {path}") as row, ThreadPoolExecutor(CLIENTS) as pool:
            row["failed"] = [item for item in pool.map(ask, [path] * CLIENTS) if item]


def again(run: Run, name: str, *killed: str) -> None:
    """Kill programs and start them, until the API answers and the load has ended."""
    run.plane.kill(*killed)
    with run.row(name) as row:
        deadline = time.monotonic() + _START_SECONDS
        while not answers(run.plane):
            run.plane.start()
            if time.monotonic() > deadline:
                row["failed"] = ["not ready"]
                break
            time.sleep(1.0)
        time.sleep(_QUIET_SECONDS)


def answers(plane: PlaneProcesses) -> bool:
    """Whether all programs of the plane run and its API server is ready."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        return plane.get("/readyz", timeout=5) > 0 and all(map(plane.runs, PROGRAMS))
    return False


def emptied(run: Run) -> None:
    """Delete everything, compact and defragment, as the controller does with a store that was full."""
    with run.row("everything deleted") as row:
        try:
            run.call("DELETE", _PATH)
        except (OSError, http.client.HTTPException) as error:
            # With very many objects the API server ends the request after a minute, and the next call continues.
            row["failed"] = [type(error).__name__]
        time.sleep(_QUIET_SECONDS)
    with run.row("compacted and defragmented"):
        revision = json.loads(run.etcd("maintenance/status", {}))["header"]["revision"]
        run.etcd("kv/compaction", {"revision": revision, "physical": True})
        run.etcd("maintenance/defragment", {})


def measure(folder: Path, spec: PlaneSpec, fill: Callable[[Run], int], *, limited: bool) -> list[dict[str, Any]]:
    """All of it on one plane."""
    plane = PlaneProcesses(folder, spec, limited=limited)
    try:
        run = Run(plane)
        with run.row("started, empty"):
            plane.start()
            plane.wait()
            time.sleep(_QUIET_SECONDS)
        with run.row("filled") as row:
            row["objects"] = fill(run)
            time.sleep(_QUIET_SECONDS)
        lists(run, "then")
        again(run, "all killed and started")
        lists(run, "after the start")
        for turn in range(3):
            again(run, f"API server killed and started, {turn + 1}", API_SERVER)
        again(run, "controller manager killed and started", KCM)
        again(run, "etcd killed and started", ETCD)
        emptied(run)
        return run.rows
    finally:
        plane.stop()


def line(row: Mapping[str, Any]) -> str:
    """One row of the table in docs/measurements/plane.md."""
    most = " | ".join(str(row["most_mib"][program]) for program in PROGRAMS)
    ended = f" **killed: {', '.join(row['killed'])}**" if row["killed"] else ""
    failed = f" failed: {row['failed']}" if row.get("failed") else ""
    return f"| {row['what']}{ended}{failed} | {row['data_mib']} | {most} | {row['seconds']} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.performance.store", description="What a plane uses, by the size of its store.")
    parser.add_argument("--quota", type=int, default=512, help="MiB that the store may hold")
    parser.add_argument("--large", type=int, default=100_000, help="large objects at most, until the quota stops them")
    parser.add_argument("--small", type=int, default=200_000, help="small objects")
    parser.add_argument("--free", action="store_true", help="without memory limits")
    chosen = parser.parse_args()
    storage = {"size": "64Gi", "quota": f"{chosen.quota}Mi"}
    spec = plane_for(tenant(), tenant_class(controlPlane={"storage": storage}))
    spec = replace(spec, service_slice="10.112.4.0/22")
    print("| | data, MiB | etcd | API server | controller manager | s |\n| --- | --- | --- | --- | --- | --- |")
    result: dict[str, Any] = {}
    fills = {"large": lambda run: fill_large(run, chosen.large), "small": lambda run: fill_small(run, chosen.small)}
    for name, fill in fills.items():
        if not getattr(chosen, name):
            continue
        with tempfile.TemporaryDirectory(prefix="bulkhead-store-") as folder:
            print(f"**{name}**")
            result[name] = measure(Path(folder), spec, fill, limited=not chosen.free)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    return 1 if any(row["killed"] for rows in result.values() for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
