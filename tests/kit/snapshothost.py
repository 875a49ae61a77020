"""A host that holds TenantSnapshots in memory and answers as a test says: it refuses, hangs, or loses an answer."""

import asyncio
import copy
from collections.abc import Callable
from enum import Enum
from typing import Any, cast

from bulkhead.api.conditions import condition_of
from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Conflict, NotFound, Throttled, unreachable
from bulkhead.kube.objects import Resource

RETRY_AFTER_SECONDS = 7.0


class Trouble(Enum):
    """How a call goes wrong."""

    REFUSED = "429"
    LOST = "the write counts, and its answer is lost"
    HANGS = "no answer"
    LATE = "the write counts after its caller went away, when `deliver` is called"


class SnapshotHost:
    """`trouble` is asked before each call: with the verb, and for a write the reason of the condition `Complete`."""

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}
        self.trouble: Callable[[str, str], Trouble | None] = lambda verb, reason: None
        self.tried: list[str] = []  # the reason of each write that was tried
        self.took: list[str] = []  # the reason of each write that counts
        self._late: list[tuple[str, Any]] = []
        self._version = 0

    @property
    def client(self) -> Client:
        return cast("Client", self)

    def ask(self, name: str, tenant: str) -> Obj:
        meta = {"name": name, "uid": f"uid-of-{name}"}
        return self._put({"metadata": meta, "spec": {"tenant": tenant}})

    def complete(self, name: str, reason: str) -> None:
        """Write the condition as another process would."""
        condition = {"type": "Complete", "status": "True", "reason": reason, "message": "of another process"}
        self._put(self.objects[name] | {"status": {"conditions": [condition]}})

    def reason(self, name: str) -> str:
        return str(condition_of(self.objects[name], "Complete").get("reason"))

    def message(self, name: str) -> str:
        return str(condition_of(self.objects[name], "Complete").get("message"))

    def deliver(self) -> None:
        """Let the late writes arrive."""
        for name, body in self._late:
            try:
                self._write(name, body)
            except Conflict:
                continue

    async def get(self, resource: Resource, name: str) -> Obj:
        await self._suffer("get", "")
        return copy.deepcopy(self._there(name))

    async def patch(self, resource: Resource, name: str, body: Any, *, subresource: str) -> Obj:
        assert subresource == "status"
        reason = str(condition_of(body, "Complete")["reason"])
        self.tried.append(reason)
        trouble = self.trouble("patch", reason)
        if trouble is Trouble.LATE:
            self._late.append((name, body))
            trouble = Trouble.HANGS
        await self._raise(trouble)
        written = self._write(name, body)
        self.took.append(reason)
        if trouble is Trouble.LOST:
            raise unreachable("the connection broke")
        return copy.deepcopy(written)

    async def _suffer(self, verb: str, reason: str) -> None:
        await self._raise(self.trouble(verb, reason))

    async def _raise(self, trouble: Trouble | None) -> None:
        await asyncio.sleep(0)
        if trouble is Trouble.REFUSED:
            raise Throttled(429, "TooManyRequests", "too many requests", retry_after=RETRY_AFTER_SECONDS)
        if trouble is Trouble.HANGS:
            await asyncio.Event().wait()

    def _there(self, name: str) -> Obj:
        if name not in self.objects:
            raise NotFound(404, "NotFound", name)
        return self.objects[name]

    def _write(self, name: str, body: Any) -> Obj:
        there = self._there(name)
        for key, value in body["metadata"].items():
            if there["metadata"][key] != value:
                raise Conflict(409, "Conflict", f"{key} of {name} is not {value}")
        return self._put(there | {"status": (there.get("status") or {}) | copy.deepcopy(body["status"])})

    def _put(self, obj: Obj) -> Obj:
        self._version += 1
        made = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self._version)}}
        self.objects[obj["metadata"]["name"]] = made
        return copy.deepcopy(made)
