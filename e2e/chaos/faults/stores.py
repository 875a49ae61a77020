"""What can happen to the data of a plane: a full store, damaged files, an older copy, a lost volume, a lost member.

Files are changed while etcd stands still, and a copy of the same moment is kept beside them. So `lift` puts back exactly what
was there, as a restore of a perfect backup would, and no acknowledged write is lost by the experiment itself.
"""

import base64
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal

from e2e import commands, machine, tenants
from e2e.api import Api, ApiError, UnreachableError
from e2e.chaos.faults import packets, parts
from e2e.chaos.faults.crew import each_of
from e2e.chaos.faults.fault import (
    Fault,
    Proof,
    Reversible,
    Scene,
    of_pod,
    quietly,
    tenant_ready,
    tenant_works,
    write,
    write_anew_fails,
    write_fails,
)
from e2e.chaos.faults.naming import LABELS, SELECTOR, marker
from e2e.chaos.load import STAYERS
from e2e.poll import until
from e2e.workloads import expect, is_ready

_LARGE_BYTES: Final = 960_000
_NO_SPACE: Final = "database space exceeded"
_NAMED_SECONDS: Final = 90.0
_FEW_OBJECTS: Final = 20
_FILL_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class FullStore(Reversible):
    """The target fills its plane's store until etcd takes nothing more; its tenant deletes the objects again."""

    objects: int = 2000  # more than fit
    writers: int = 4

    def inject(self, scene: Scene) -> Sequence[Proof]:
        self.undo.later("the large objects", partial(_empty, scene))
        begin = time.monotonic()
        made, refusal = _fill(scene.target.api, self.objects, self.writers)
        took = time.monotonic() - begin
        scene.note(f"    {made} objects of {_LARGE_BYTES // 1000} kB in {took:.0f} s; waiting for the controller to see it")
        named = until("a store that is full for good", partial(_brimming, scene), seconds=130, interval=2.0)
        return [
            (_NO_SPACE in refusal, f"after {made} large objects the API answered: {refusal[:120]}"),
            (True, f"the Tenant says {named[:140]}"),
        ]

    def recovered(self, scene: Scene) -> None:
        write(scene.target.api)
        tenant_ready(scene)
        tenant_works(scene.target)


def _brimming(scene: Scene) -> str:
    """What the Tenant says of its full store; the controller makes one with mere holes writable, so it is filled again."""
    _fill(scene.target.api, _FEW_OBJECTS, 1)
    ready = tenants.conditions(scene.host.get("Tenant", scene.target.name)).get("Ready", {})
    expect(ready.get("reason") == "StoreFull", f"Ready is {ready}")
    return f"{ready['reason']}: {ready['message']}"


def _fill(api: Api, most: int, writers: int) -> tuple[int, str]:
    """How many large objects the API took, and its answer when it took no more."""
    refusals: list[str] = []

    def create(_: int) -> bool:
        if refusals:
            return False
        text = base64.b64encode(os.urandom(_LARGE_BYTES * 3 // 4)).decode()
        metadata = {"name": f"large-{marker()}", "namespace": "default", "labels": dict(LABELS)}
        try:
            api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}})
        except ApiError as error:
            if _NO_SPACE in str(error):
                refusals.append(str(error))
            return False
        except UnreachableError:
            time.sleep(0.5)
            return False
        return True

    made = sum(each_of(range(most), create, threads=writers, seconds=_FILL_SECONDS))
    return made, next(iter(refusals), "")


def _empty(scene: Scene) -> None:
    """Delete the large objects one page after another: the plane need not read them all at once."""
    path, query = "/api/v1/namespaces/default/configmaps", {"labelSelector": SELECTOR}

    def none_left() -> None:
        quietly(lambda: scene.target.api.request("DELETE", path, query=query, timeout=60))
        found = scene.target.api.request("GET", path, query=query | {"limit": "1"})
        expect(isinstance(found, dict) and not found["items"], "some are left")

    until("the large objects to go", none_left, seconds=120, interval=1.0)


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of one member, and a copy of them from the moment at which they were changed."""

    scene: Scene
    member: int = 0

    @property
    def data(self) -> Path:
        return parts.volume_of(self.scene, self.member) / "data"

    @property
    def saved(self) -> Path:
        return self.data.with_name("chaos-saved")

    def processes(self) -> list[machine.Process]:
        return parts.plane_processes(self.scene, "etcd", self.member)

    def change(self, change: Callable[[Path], str]) -> tuple[Proof, str]:
        """Stop etcd, copy its files, change them, and kill it. Returns the proof of the kill, and what `change` says."""
        doomed = self.processes()
        with parts.frozen(self.processes, "etcd of the target"):
            until("etcd to stand still", lambda: expect(all(p.state == "T" for p in doomed), "it runs"), seconds=10)
            shutil.rmtree(self.saved, ignore_errors=True)
            packets.run("cp", "-a", str(self.data), str(self.saved))
            text = change(self.data)
            proof = machine.kill(doomed, "etcd of the target")
        return proof, text

    def put_back(self) -> None:
        """The copy again, and a pod that starts at once."""
        if not self.saved.exists():
            return
        with parts.frozen(self.processes, "etcd of the target", interval=0.05):
            time.sleep(0.3)
            shutil.rmtree(self.data)
            self.saved.rename(self.data)
            for process in self.processes():
                process.send(signal.SIGKILL)
        parts.fresh_pods(self.scene.host, self.scene.target.plane, f"plane-{self.member}")


def _overwritten(data: Path) -> str:
    """Random bytes in the middle half of the database."""
    db = data / "member" / "snap" / "db"
    size = db.stat().st_size
    with db.open("r+b") as file:
        file.seek(size // 4 // 4096 * 4096)
        file.write(os.urandom(size // 2))
    return f"{size >> 11} KiB in the middle of the database were overwritten"


def _truncated(data: Path) -> str:
    """The newest log without the last half of what was written into it."""
    log = max((data / "member" / "wal").glob("*.wal"))
    content = log.read_bytes().rstrip(b"\0")
    os.truncate(log, len(content) // 2)
    return f"{log.name} was cut from {len(content) >> 10} to {len(content) >> 11} KiB"


def _flipped(data: Path) -> str:
    """One page of wrong bytes in the newest log."""
    log = max((data / "member" / "wal").glob("*.wal"))
    used = len(log.read_bytes().rstrip(b"\0"))
    with log.open("r+b") as file:
        file.seek(used // 3)
        file.write(os.urandom(4096))
    return f"4 KiB of {log.name} were overwritten"


DAMAGES: Final = {"database overwritten": _overwritten, "log truncated": _truncated, "log overwritten": _flipped}
Damage = Literal["database overwritten", "log truncated", "log overwritten"]


@dataclass(frozen=True, slots=True)
class DamagedStore(Reversible):
    """Files of the target's etcd are damaged while it stands still, and it is killed. Nothing of it may go on the host."""

    damage: Damage = "database overwritten"
    seconds: float = 30.0

    def inject(self, scene: Scene) -> Sequence[Proof]:
        files, before = _Files(scene), _host_pods(scene)
        self.undo.later("the files of etcd", files.put_back)
        killed, text = files.change(DAMAGES[self.damage])
        failures, tries, end = 0, 0, time.monotonic() + self.seconds
        while time.monotonic() < end:
            failures += bool(write_fails(scene.target.api))
            tries += 1
            time.sleep(0.5)
        message = _last_words(scene)
        return [
            killed,
            (failures > tries * 0.5, f"{text}; {failures} of {tries} writes failed; etcd wrote: {message}"),
            _stayed(scene, before),
        ]


def _host_pods(scene: Scene) -> set[str]:
    """The names and UIDs of the host pods that must stay."""
    about = [pod["metadata"] for pod in scene.host.list("Pod", scene.target.work)]
    return {f"{metadata['name']}/{metadata['uid']}" for metadata in about if metadata["name"].startswith(STAYERS)}


def _stayed(scene: Scene, before: set[str]) -> Proof:
    left = before - _host_pods(scene)
    return not left, f"host pods are gone: {sorted(left)}" if left else f"{len(before)} host pods of the target stayed"


def _last_words(scene: Scene) -> str:
    """The gravest line that etcd wrote before it ended last, or that it writes now."""
    lines: list[str] = []
    for previous in ("true", "false"):
        query = {"container": "etcd", "previous": previous, "tailLines": "40"}
        try:
            text = scene.host.text(f"/api/v1/namespaces/{scene.target.plane}/pods/plane-0/log", query)
        except (ApiError, UnreachableError):
            continue
        lines += text.strip().splitlines()
    grave = [line for line in lines if any(word in line for word in ("panic", "fatal", "corrupt", "crc"))]
    return (grave or lines or ["nothing"])[-1][:240]


@dataclass(frozen=True, slots=True)
class OlderStore(Reversible):
    """The target's etcd comes back with a copy of its data from some writes ago. Nothing of it may go on the host.

    The newest files come back at the end, and with them the newest write. What is written to the older copy meanwhile is lost.
    """

    writes: int = 30
    newest: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    def inject(self, scene: Scene) -> Sequence[Proof]:
        files, before = _Files(scene), _host_pods(scene)
        older = files.data.with_name("chaos-older")
        self.undo.later("the acceptance of the data", partial(accept_data, scene))
        self.undo.later("the older copy", partial(shutil.rmtree, older, ignore_errors=True))
        self.undo.later("the files of etcd", files.put_back)
        shutil.rmtree(older, ignore_errors=True)
        with parts.frozen(files.processes, "etcd of the target"):
            time.sleep(0.5)
            packets.run("cp", "-a", str(files.data), str(older))
        until("the target to write again", lambda: write(scene.target.api), seconds=30)
        for _ in range(self.writes):
            until("a write", lambda: write(scene.target.api), seconds=30)
        time.sleep(8)  # the syncer records the revision every 5 s
        self.newest[:] = [until("the newest write", partial(_last_written, scene), seconds=30)]
        killed, text = files.change(partial(_replaced, older))
        for process in parts.plane_processes(scene, "kube-apiserver"):
            process.send(signal.SIGKILL)
        named = tenants.wait_condition(scene.host, scene.target.name, "Ready", status="False", reason="DataLost", seconds=90)
        reported = f"{text}; the Tenant says {named['reason']}: {named['message'][:140]}"
        gone = until("an answer of the older copy", partial(_last_written, scene), seconds=60) not in self.newest
        without = (gone, f"the newest write is {'not ' if gone else ''}in it")
        return [killed, without, (True, reported), _stayed(scene, before)]

    def recovered(self, scene: Scene) -> None:
        Reversible.recovered(self, scene)
        expect(_last_written(scene) in self.newest, "the newest write is not back")


def _last_written(scene: Scene) -> str:
    """The marker of the last write of a fault."""
    return str(scene.target.api.get("ConfigMap", "chaos-fault", "default")["data"]["at"])


def _replaced(older: Path, data: Path) -> str:
    shutil.rmtree(data)
    packets.run("cp", "-a", str(older), str(data))
    return "an older copy took the place of the data"


def accept_data(scene: Scene) -> None:
    """What an admin does once they have looked at the data; no error if the plane is accepted already."""

    def accepted() -> None:
        outcome = commands.bulkhead(
            "tenant", "accept-data", scene.target.name, "--yes", kubeconfig=machine.KUBECONFIG, check=False, seconds=90
        )
        expect(outcome.code == 0, outcome.text[-200:])

    until("the data to be accepted", accepted, seconds=60, interval=2.0)


@dataclass(frozen=True, slots=True)
class LostVolume(Reversible):
    """The volume of the target's plane is lost; the loss is named, and an admin accepts the empty plane."""

    def inject(self, scene: Scene) -> Sequence[Proof]:
        before, plane = _host_pods(scene), parts.plane_pod(scene)
        old = parts.volume_of(scene)
        self.undo.later("the acceptance of the data", partial(accept_data, scene))
        scene.host.delete("PersistentVolumeClaim", "data-plane-0", scene.target.plane)
        scene.host.delete("Pod", "plane-0", scene.target.plane, grace=0)
        named = tenants.wait_condition(scene.host, scene.target.name, "Ready", status="False", reason="DataLost", seconds=120)
        new, replaced = parts.volume_of(scene), of_pod(parts.plane_pod(scene)) != of_pod(plane)
        return [
            (replaced and old != new, f"the volume {old.name} is gone; now it is {new.name}"),
            (True, f"the Tenant says {named['reason']}: {named['message'][:160]}"),
            _stayed(scene, before),
        ]

    def recovered(self, scene: Scene) -> None:
        tenant_ready(scene)
        tenant_works(scene.target)


@dataclass(frozen=True, slots=True)
class LostMember(Fault):
    """One of the target's three members loses its files; the other two serve, and the controller replaces it.

    Nothing is put back: the old files are those of a member that no longer is one.
    """

    member: int = 2
    seconds: float = 30.0

    def unmet(self, scene: Scene) -> str:
        return parts.too_few_members(scene)

    def inject(self, scene: Scene) -> Sequence[Proof]:
        files = _Files(scene, self.member)
        doomed = files.processes()
        with parts.frozen(files.processes, "etcd of the member"):
            until("etcd to stand still", lambda: expect(all(p.state == "T" for p in doomed), "it runs"), seconds=10)
            shutil.rmtree(files.data)
            killed = machine.kill(doomed, f"etcd of member {self.member}")
        failures, tries, named, end = 0, 0, "", time.monotonic() + self.seconds
        # It may be replaced before the time is over, and is named only until then.
        while time.monotonic() < end or not named:
            failures += bool(write_anew_fails(scene.target))
            tries += 1
            named = named or _member_named(scene)
            if time.monotonic() > end + _NAMED_SECONDS:
                break
            time.sleep(0.3)
        text = f"the member's files are gone; {failures} of {tries} writes to the others failed"
        return [killed, (failures < tries / 2, text), (bool(named), named or "no condition of the Tenant named the loss")]

    def recovered(self, scene: Scene) -> None:
        ready = sum(is_ready(pod) for pod in parts.pods_named(scene.host, scene.target.plane, "plane-"))
        named = _member_named(scene)
        expect(not named and ready >= 3, f"{ready} members are ready; {named}")
        tenant_ready(scene)
        tenant_works(scene.target)


def _member_named(scene: Scene) -> str:
    """What the Tenant says about a member that is missing; empty if it says nothing."""
    found = tenants.conditions(scene.host.get("Tenant", scene.target.name)).get("Degraded")
    return "" if found is None else f"Degraded={found['status']} {found['reason']}: {found.get('message', '')}"[:200]
