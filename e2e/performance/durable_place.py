"""Where the benchmark of planes that survive runs: the embedded host with an object store, and tenants made as parts need them.

host up ──> rclone's S3 server at the node's address ──> chart with backup.* ──> tenants ──> removed, chart without it again
"""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pyrage

from bulkhead.snapshots.target import Target
from e2e import commands, install, machine, names, tenants
from e2e.api import Api, Obj
from e2e.chaos.faults import parts
from e2e.machine import RESULTS, Standing, stand
from e2e.tenants import Tenant
from tests.kit.bucket import BUCKET, KEY, Bucket, bucket
from workstation.hostcluster.component import NODE_ADDRESS

CLASS = "bench-durable"
_SECRET = "bench-durable-backup"
_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": KEY["access_key_id"],
    "AWS_SECRET_ACCESS_KEY": KEY["secret_access_key"],
}

_MOST_OBJECTS = 10_000

Note = Callable[[str], None]


@dataclass
class Place:
    """The host, its object store, the private key, and the tenants that the run has made."""

    host: Api
    bucket: Bucket
    key: Path
    note: Note
    made: list[str] = field(default_factory=list)

    def tenant(self, name: str, **plane: Any) -> Tenant:
        """A new tenant with these settings of its control plane, Ready."""
        self.create(name, **plane)
        tenants.wait_ready(self.host, [name], seconds=300)
        return tenants.open_tenant(name, timeout=60)

    def create(self, name: str, **plane: Any) -> None:
        """The Tenant, after an older one of its name is gone."""
        if name not in self.made:
            self.made.append(name)
        tenants.remove(self.host, name, seconds=300)
        self.host.create(tenants.manifest(name, gpus=0, tenant_class=CLASS, controlPlane=plane))

    def empty(self) -> None:
        """Remove every tenant that the run has made, and all that is stored of them."""
        _removed(self.host, self.made)
        asyncio.run(_emptied(self.bucket.target()))

    def command(self, *words: str) -> "Command":
        """Start a command of an admin with the credentials of the object store."""
        return Command(words, self.note)

    @property
    def where(self) -> tuple[str, ...]:
        """The options by which a command reaches and opens what is stored."""
        return ("--key", str(self.key), "--endpoint", self.bucket.endpoint, "--plain-http")

    @property
    def target(self) -> str:
        return f"s3://{BUCKET}"

    def snapshot(self, tenant: str, name: str, *, seconds: float = 900) -> tuple[Obj, float]:
        """Take a snapshot as an admin does: the TenantSnapshot, and the seconds until the command had ended."""
        self.host.delete("TenantSnapshot", name)
        begin = time.monotonic()
        self.command("tenant", "snapshot", tenant, "--as", name, "--timeout", f"{seconds:g}s").ends(seconds + 60)
        return self.host.get("TenantSnapshot", name), time.monotonic() - begin


class Command:
    """A command of the platform that runs; its progress is shown as it comes, and kept."""

    def __init__(self, words: tuple[str, ...], note: Note) -> None:
        self.words = words
        self._note = note
        self.told: list[str] = []
        environment = {**os.environ, "KUBECONFIG": str(machine.KUBECONFIG), **_CREDENTIALS}
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "workstation.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self.told.append(line.rstrip())
            if "warning: " in line:
                self._note(f"    {line.rstrip().partition('warning: ')[2]}")

    def ends(self, seconds: float) -> list[str]:
        """Wait for its end: what it told. Raises CommandError if it fails or takes longer."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._reading.join(5.0)
        RESULTS.mkdir(parents=True, exist_ok=True)
        with (RESULTS / "durable-commands.log").open("a") as log:
            log.write("\n".join([f"$ bulkhead {' '.join(self.words)}", *self.told, f"exit code {code}", ""]))
        if code != 0:
            raise commands.CommandError(f"bulkhead {' '.join(self.words)}: exit code {code}: " + " | ".join(self.told[-8:]))
        return self.told


class Peak:
    """Resident memory of the controller while a block runs, in MiB: before it, and at most."""

    def __init__(self, host: Api) -> None:
        found = parts.controllers(host)
        if not found:
            raise RuntimeError("controller: no process found")
        self._pid = max(found, key=lambda process: process.started).pid
        self.before = self.most = machine.rss_kib(self._pid) / 1024
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._ends.wait(0.1):
            self.most = max(self.most, machine.rss_kib(self._pid) / 1024)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        machine.rss_kib(self._pid)  # an error if the controller was replaced meanwhile


@contextlib.contextmanager
def prepared(note: Note, *, installs: bool) -> Iterator[Place]:
    """The place, and afterwards the host without it; `installs` brings the host and its images up to date first."""
    if installs:
        machine.bring_up(lambda line: note(f"    {line}"))
    host = machine.host_api(timeout=60)
    with tempfile.TemporaryDirectory(prefix="bulkhead-bench-") as folder:
        key = pyrage.x25519.Identity.generate()
        file = Path(folder) / "backup-key.txt"
        file.write_text(f"{key}\n")
        stand(Standing.PROBE)
        with bucket(Path(folder) / "s3", address=NODE_ADDRESS) as made:
            host.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SYSTEM_NAMESPACE}})
            meta = {"name": _SECRET, "namespace": names.SYSTEM_NAMESPACE}
            host.apply({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": _CREDENTIALS})
            install.forget_interrupted(host, note)
            install.install_chart(note, **_values(made, str(key.to_public())))
            install.replace_outdated(host, note)
            install.apply_class(host)
            host.apply(_class())
            place = Place(host, made, file, note)
            try:
                yield place
            finally:
                _leave(place)


def _values(made: Bucket, recipient: str) -> dict[str, str]:
    return {
        "backup.target": f"s3://{BUCKET}",
        "backup.endpoint": made.endpoint,
        "backup.plainHTTP": "true",
        "backup.credentialsSecret": _SECRET,
        "backup.recipients": f"{{{recipient}}}",
        "networkPolicy.backup[0].cidr": f"{NODE_ADDRESS}/32",
        "networkPolicy.backup[0].port": str(made.port),
    }


def _class() -> Obj:
    """The example class with room for large stores and for three members."""
    standard = next(obj for obj in install.example_objects() if obj["kind"] == "TenantClass")
    plane = standard["spec"].get("controlPlane", {})
    storage = {"size": "2Gi", "maxSize": "8Gi", "maxQuota": "2Gi"}
    return standard | {
        "metadata": {"name": CLASS},
        "spec": standard["spec"] | {"controlPlane": plane | {"maxReplicas": 3, "storage": storage}},
    }


def _removed(host: Api, made: list[str]) -> None:
    """Remove these tenants, their snapshots and restores, and wait until they are gone."""
    for name in made:
        host.delete("Tenant", name)
    for name in made:
        tenants.wait_gone(host, name, seconds=300)
    for kind in ("TenantSnapshot", "TenantRestore"):
        for obj in host.list(kind):
            if obj["spec"]["tenant"] in made:
                host.delete(kind, obj["metadata"]["name"])


async def _emptied(target: Target) -> None:
    for path in [path async for path in target.names(_MOST_OBJECTS)]:
        await target.delete(path)


def _leave(place: Place) -> None:
    place.note("removing what the benchmark created")
    _removed(place.host, place.made)
    place.host.delete("TenantClass", CLASS)
    install.install_chart(place.note)
    place.host.delete("Secret", _SECRET, names.SYSTEM_NAMESPACE)
