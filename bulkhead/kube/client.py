"""The verbs: get, list, create, replace, patch, apply, delete, watch, raw paths, upgrades.

Objects go in and out as plain dicts. Nothing is retried here: Throttled and Unavailable carry `retry_after`, and the
caller's queue decides. Every call has a deadline; every answer and every list a bound.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from bulkhead.api.objects import Obj
from bulkhead.kube import codec, proxy
from bulkhead.kube.errors import Gone, NotFound, NotServed, Timeout, TooLarge
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.objects import ObjList, Resource
from bulkhead.kube.transport import CALL_CONNECTIONS, JSON, Transport
from bulkhead.kube.watch import (
    METADATA_LIST_ONLY,
    METADATA_ONLY,
    MOST_LINE_BYTES,
    WATCH_SILENCE_SECONDS,
    WatchEvent,
    default_timeout,
    watch_events,
)

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_MIB = 1024 * 1024
_MOST_LIST_PAGES = 2000
_LIST_DEADLINE_SECONDS = 300.0


class Client:
    """Talks to one API server as one identity; an async context manager."""

    def __init__(
        self,
        config: KubeConfig,
        *,
        user_agent: str,
        field_manager: str,
        timeout: float = 30.0,
        max_body: int = 64 * _MIB,
        max_list: int = 256 * _MIB,
        connections: int = CALL_CONNECTIONS,
    ) -> None:
        self.config = config
        self.field_manager = field_manager
        self._max_list = max_list
        self.transport = Transport(config, user_agent=user_agent, timeout=timeout, max_body=max_body, connections=connections)

    async def __aenter__(self) -> Self:
        await self.transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.transport.__aexit__(kind, error, trace)

    # -- reading

    async def get(self, r: Resource, name: str, namespace: str | None = None, *, subresource: str | None = None) -> Obj:
        """Read one object."""
        return codec.decode_obj(await self.transport.request("GET", r.path(namespace, name, subresource)))

    async def list(
        self,
        r: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
    ) -> ObjList:
        """Read a whole list, page by page, at one resource version."""
        try:
            return await self._collect(r, namespace, label_selector, field_selector, limit)
        except Gone:
            # The continue token expired on the way (compaction); once more from the start is what kubectl does.
            return await self._collect(r, namespace, label_selector, field_selector, limit)

    async def _collect(
        self, r: Resource, namespace: str | None, label_selector: str | None, field_selector: str | None, limit: int
    ) -> ObjList:
        items: list[Obj] = []
        version = ""
        async for page in self.pages(r, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit):
            # Items of a list come without their type.
            items += [{"apiVersion": r.api_version, "kind": r.kind} | codec.decode_obj(raw) for raw in page.items]
            version = page.resource_version
        return ObjList(items, version)

    async def list_metadata(
        self,
        r: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> ObjList:
        """Read of a whole list the metadata alone, cut down to what `Meta` names: enough to count or delete."""
        items: list[Obj] = []
        version = ""
        typed = {"apiVersion": r.api_version, "kind": r.kind}
        pages = self.pages(r, namespace, label_selector=label_selector, field_selector=field_selector, metadata_only=True)
        async for page in pages:
            items += [typed | {"metadata": codec.plain_meta(codec.decode_meta(raw))} for raw in page.items]
            version = page.resource_version
        return ObjList(items, version)

    async def pages(
        self,
        r: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
        metadata_only: bool = False,
        most: int | None = None,
    ) -> AsyncGenerator[codec.Page, None]:
        """Yield the pages of a list with their items still encoded.

        When the continue token expires on the way, Gone is raised: the pages so far belong to an older version. A list that is
        too large, or a page of it, raises TooLarge. A caller that bounds what it keeps gives `most`, the bytes that the whole
        list may have where that is more than the client's own bound; then pages that do not fit are asked for in parts.
        """
        params = _selectors(label_selector, field_selector) | {"limit": str(limit)}
        accept = METADATA_LIST_ONLY if metadata_only else JSON
        size, bound = 0, max(self._max_list, most or 0)
        deadline = asyncio.get_running_loop().time() + _LIST_DEADLINE_SECONDS
        for _ in range(_MOST_LIST_PAGES):
            if asyncio.get_running_loop().time() > deadline:
                raise Timeout(f"list of {r}: not read within {_LIST_DEADLINE_SECONDS:g} s")
            try:
                body = await self.transport.request("GET", r.path(namespace), params=params, accept=accept)
            except TooLarge:
                if most is None or params["limit"] == "1":
                    raise
                params["limit"] = str(max(1, int(params["limit"]) // 4))
                continue
            size += len(body)
            if size > bound:
                raise TooLarge(f"list of {r}: more than {bound} bytes")
            if 8 * len(body) < self.transport.max_body:
                params["limit"] = str(min(limit, 4 * int(params["limit"])))
            page = codec.decode_page(body)
            yield page
            if not page.next_page:
                return
            params["continue"] = page.next_page
        raise TooLarge(f"list of {r}: more than {_MOST_LIST_PAGES} pages")

    def watch(
        self,
        r: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_seconds: int | None = None,
        metadata_only: bool = False,
        max_line: int = MOST_LINE_BYTES,
        inactivity: float = WATCH_SILENCE_SECONDS,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield events after `resource_version`, bookmarks among them, until the server ends the watch.

        Close it with `contextlib.aclosing` where the loop may be left early. Raises Gone when the version is too old.
        """
        params = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(default_timeout() if timeout_seconds is None else timeout_seconds),
        }
        accept = METADATA_ONLY if metadata_only else JSON
        return watch_events(self.transport, r.path(namespace), params, accept=accept, max_line=max_line, inactivity=inactivity)

    # -- writing

    async def create(self, r: Resource, obj: Obj, namespace: str | None = None) -> Obj:
        """Create an object in `namespace`, or in the one that it names."""
        return await self._write("POST", r.path(place(r, obj, namespace)), obj)

    async def replace(self, r: Resource, obj: Obj, *, subresource: str | None = None) -> Obj:
        """Write an object whole; its resource version, when there, must still be the current one."""
        return await self._write("PUT", r.path(place(r, obj, None), obj["metadata"]["name"], subresource), obj)

    async def patch(
        self,
        r: Resource,
        name: str,
        body: Any,
        namespace: str | None = None,
        *,
        content_type: str = MERGE_PATCH,
        subresource: str | None = None,
    ) -> Obj:
        """Patch an object: a merge patch unless `content_type` says otherwise."""
        return await self._write("PATCH", r.path(namespace, name, subresource), body, content_type=content_type)

    async def apply(self, r: Resource, obj: Obj, *, force: bool = True, subresource: str | None = None) -> Obj:
        """Server-side apply: creates or updates, and owns exactly the fields that `obj` names."""
        path = r.path(place(r, obj, None), obj["metadata"]["name"], subresource)
        typed = {"apiVersion": r.api_version, "kind": r.kind} | obj
        params = {"force": "true" if force else "false"}
        return await self._write("PATCH", path, typed, content_type=APPLY_PATCH, params=params)

    async def delete(
        self,
        r: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
    ) -> Obj | None:
        """Ask for deletion. Returns the object while it is still there (finalizers, grace), None once it is gone.

        An object that was gone before is None too. With `uid` or `resource_version`, Conflict is raised for any other object.
        """
        options = delete_options(
            grace_seconds=grace_seconds, uid=uid, resource_version=resource_version, propagation=propagation
        )
        try:
            data = await self.transport.request("DELETE", r.path(namespace, name), body=options)
        except NotServed:
            # An API that is switched off may hold the object still.
            raise
        except NotFound:
            return None
        answer = codec.decode_obj(data)
        return None if answer.get("kind") == "Status" else answer

    async def create_subresource(
        self, r: Resource, name: str, subresource: str, body: Obj, namespace: str | None = None
    ) -> Obj:
        """Post to a subresource: binding, token, eviction."""
        return await self._write("POST", r.path(namespace, name, subresource), body)

    async def _write(
        self, method: str, path: str, body: Any, *, content_type: str = JSON, params: Mapping[str, str] | None = None
    ) -> Obj:
        query = {"fieldManager": self.field_manager} | dict(params or {})
        data = await self.transport.request(method, path, params=query, body=codec.encode(body), content_type=content_type)
        return codec.decode_obj(data)

    # -- raw

    async def get_raw(self, path: str, *, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 -- passed on as the deadline
        """Read any path, query included."""
        return await self.transport.request("GET", path, accept="*/*", timeout=timeout)

    async def version(self) -> Obj:
        """Read `/version`."""
        return codec.decode_obj(await self.transport.request("GET", "/version"))

    def stream(
        self, path: str, params: Mapping[str, str] | None = None, *, narrow: bool = False
    ) -> contextlib.AbstractAsyncContextManager[proxy.ByteStream]:
        """Open a long answer, such as a followed log, as chunks of bytes; a `narrow` one keeps little that has to wait."""
        return proxy.open_stream(self.transport, path, params, narrow=narrow)

    async def upgrade(
        self,
        path: str,
        params: Iterable[tuple[str, str]] = (),
        headers: Iterable[tuple[str, str]] = (),
        *,
        method: str = "GET",
        narrow: bool = False,
    ) -> proxy.RawConnection:
        """Switch a connection to another protocol (exec, attach, port-forward); the caller splices the bytes."""
        return await proxy.open_upgrade(self.transport, path, params, headers, method=method, narrow=narrow)


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    params: dict[str, str] = {}
    if label_selector:
        params["labelSelector"] = label_selector
    if field_selector:
        params["fieldSelector"] = field_selector
    return params


def delete_options(
    *,
    grace_seconds: int | None = None,
    uid: str | None = None,
    resource_version: str | None = None,
    propagation: str | None = None,
) -> bytes:
    """The body of a deletion."""
    options: Obj = {"apiVersion": "v1", "kind": "DeleteOptions"}
    preconditions = {field: value for field, value in (("uid", uid), ("resourceVersion", resource_version)) if value}
    if preconditions:
        options["preconditions"] = preconditions
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if propagation:
        options["propagationPolicy"] = propagation
    return codec.encode(options)


def place(r: Resource, obj: Obj, namespace: str | None = None) -> str | None:
    """The namespace to write an object into: this one, else its own; ValueError where there is none and the kind needs one."""
    if not r.namespaced:
        return None
    place = namespace or obj["metadata"].get("namespace")
    if not place:
        raise ValueError(f"{r.kind} {obj['metadata'].get('name', '')}: namespace missing")
    return str(place)
