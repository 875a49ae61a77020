"""A fake of a tenant's plane: objects in memory, what was written, and the way to a fake slurmrestd.

Pods that are made start when the test says so. Only what the Slurm loop uses is there; anything else fails.
"""

import copy
import itertools
from typing import Any

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.connection import Answer
from bulkhead.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound, Unavailable
from bulkhead.kube.objects import Resource
from bulkhead.kube.transport import Transport
from controller.inside import counted
from controller.inside.counted import Page
from controller.slurm.objects.parts import marks
from controller.slurm.observe import NODE_SETS


class FakePlane:
    """Has the methods of a `Plane`."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.objects: dict[tuple[str, str], Obj] = {}
        self.charged = 0
        self.writes: list[tuple[str, str, str]] = []
        # What deleted objects got to end.
        self.graces: dict[str, int | None] = {}
        self.down = False
        # Names of objects that are not applied.
        self.refused: set[str] = set()
        self._serial = itertools.count(1)

    def of(self, kind: str) -> dict[str, Obj]:
        return {name: obj for (found, name), obj in self.objects.items() if found == kind}

    def start(self, *pods: str, node: str = "n1") -> None:
        for name in pods or list(self.of("Pod")):
            pod = self.objects["Pod", name]
            if pod["spec"].get("nodeName"):
                continue
            pod["spec"]["nodeName"] = node
            pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    def add_daemon(self, name: str, *, ready: bool = True) -> None:
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        labels = marks(name)
        self._store(kinds.PODS, {"metadata": {"name": f"{name}-0", "labels": labels}, "status": {"conditions": conditions}})

    def charge(self, size: int) -> None:
        self.charged += size

    async def exchange(self, method: str, path: str, **more: Any) -> Answer:
        return await self.transport.exchange(method, path, **more)

    async def first_page(self, r: Resource, namespace: str | None = None, *, label_selector: str) -> tuple[Obj, ...]:
        return self._found(r, label_selector)

    async def list(
        self,
        r: Resource,
        namespace: str | None = None,
        *,
        shape: msgspec.json.Decoder[Page[Any]],
        label_selector: str | None = None,
        most: int,
    ) -> tuple[Obj, ...]:
        found = msgspec.json.encode({"items": self._found(r, label_selector)})
        return tuple(msgspec.to_builtins(each) for each in counted.decode(shape, found, 100_000).items or ())

    def _found(self, r: Resource, label_selector: str | None) -> tuple[Obj, ...]:
        self._check()
        if r is NODE_SETS and ("CustomResourceDefinition", "nodesets.slurm.bulkhead.dev") not in self.objects:
            raise NotFound(404, "NotFound", "no such kind")
        found = [copy.deepcopy(obj) for obj in self.of(r.kind).values()]
        if label_selector:
            wanted = dict(pair.split("=") for pair in label_selector.split(","))
            found = [obj for obj in found if wanted.items() <= (obj["metadata"].get("labels") or {}).items()]
        return tuple(found)

    async def get(
        self,
        r: Resource,
        name: str,
        namespace: str | None = None,
        *,
        shape: msgspec.json.Decoder[Any],
        metadata_only: bool = False,
    ) -> Any:
        self._check()
        if (r.kind, name) not in self.objects:
            raise NotFound(404, "NotFound", name)
        return shape.decode(msgspec.json.encode(self.objects[r.kind, name]))

    def add_node(self, name: str, **labels: str) -> None:
        self._store(kinds.NODES, {"metadata": {"name": name, "labels": {"bulkhead.dev/platform": "true"} | labels}})

    async def replace(self, r: Resource, obj: Obj) -> None:
        self._check()
        key = (r.kind, obj["metadata"]["name"])
        self.writes.append(("replace", *key))
        if obj["spec"] != self.objects[key]["spec"]:
            self.objects[key] = self.objects[key] | copy.deepcopy(obj)

    async def apply(self, r: Resource, obj: Obj, **_: Any) -> Obj:
        self._check()
        key = (r.kind, obj["metadata"]["name"])
        if key[1] in self.refused:
            raise Forbidden(403, "Forbidden", f"admission webhook denied {key[1]}")
        self.writes.append(("apply", *key))
        old = self.objects.get(key)
        if old is None:
            return self._store(r, copy.deepcopy(obj))
        for part in ("spec", "data"):
            if part in obj:
                old[part] = (old.get(part) or {}) | copy.deepcopy(obj[part])
        return old

    async def create(self, r: Resource, obj: Obj, namespace: str | None = None) -> Obj:
        self._check()
        if (r.kind, obj["metadata"]["name"]) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", "it is there")
        self.writes.append(("create", r.kind, obj["metadata"]["name"]))
        return self._store(r, copy.deepcopy(obj))

    async def delete(
        self, r: Resource, name: str, namespace: str | None = None, *, uid: str | None = None, **more: Any
    ) -> None:
        self._check()
        found = self.objects.get((r.kind, name))
        if found is None:
            return
        if uid and found["metadata"]["uid"] != uid:
            raise Conflict(409, "Conflict", "another object")
        self.writes.append(("delete", r.kind, name))
        self.graces[name] = more.get("grace_seconds")
        del self.objects[r.kind, name]

    async def patch(self, r: Resource, name: str, body: Any, namespace: str | None = None, **more: Any) -> Obj:
        self._check()
        found = self.objects.get((r.kind, name))
        if found is None:
            raise NotFound(404, "NotFound", name)
        self.writes.append(("patch", r.kind, f"{name}/{more['subresource']}" if "subresource" in more else name))
        if isinstance(body, list):
            found |= {operation["path"].strip("/"): copy.deepcopy(operation["value"]) for operation in body}
            return found
        for part, value in body.items():
            if part == "metadata":
                continue
            if r is kinds.PODS and "conditions" in value:
                merged = {each["type"]: each for each in found["status"].get("conditions") or []}
                merged |= {each["type"]: each for each in value["conditions"]}
                found["status"]["conditions"] = list(merged.values())
            else:
                found[part] = (found.get(part) or {}) | value
        return found

    def _store(self, r: Resource, obj: Obj) -> Obj:
        obj["metadata"] |= {"uid": f"uid-{next(self._serial)}", "generation": 1}
        obj.setdefault("kind", r.kind)
        obj.setdefault("spec", {})
        obj.setdefault("status", {})
        self.objects[r.kind, obj["metadata"]["name"]] = obj
        return obj

    def _check(self) -> None:
        if self.down:
            raise Unavailable(0, "Unreachable", "the plane is down")
