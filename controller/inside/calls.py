"""The controller's requests to a plane, and the bounds on the responses.

A plane is hostile input: its tenant may have put anything into it, and anything in place of its kinds.

    write ──> the server reduces the response to metadata; it is bounded, and not even decoded
    read  ──> only the fields that a shape names, of one object or of pages that are dropped one by one

Every response, every list and every number of items has a bound; every byte is charged to the turn (`budget`). In the structs
that describe a shape, everything that may be repeated is `Counted`, because a decoder checks lengths only once all is in
memory.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.kube import codec
from bulkhead.kube.client import APPLY_PATCH, MERGE_PATCH, Client, delete_options, place
from bulkhead.kube.connection import Answer
from bulkhead.kube.errors import Gone, NotFound, NotServed, ProtocolError, Timeout, TooLarge
from bulkhead.kube.objects import Resource
from bulkhead.kube.transport import JSON
from bulkhead.kube.watch import METADATA_LIST_ONLY, METADATA_ONLY
from controller.inside import counted
from controller.inside.budget import Turn
from controller.inside.counted import Counted, Page

T = TypeVar("T")
_FAILURES: Final = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)
_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
# A write returns only the metadata of the object.
WRITE_BYTES: Final = _MIB
# An object that is read by itself; etcd holds none that is larger.
OBJECT_BYTES: Final = 2 * _MIB
PAGE_ITEMS: Final = 100
PAGE_BYTES: Final = 8 * _MIB
LIST_BYTES: Final = 48 * _MIB
LIST_DEADLINE_SECONDS: Final = 20.0
# Counted structs within one item: conditions, containers.
MOST_PARTS_OF_AN_ITEM: Final = 128
_ITEM_OVERHEAD_BYTES: Final = 1 * _KIB
# A dict takes at most about this many times the size of its JSON.
_DECODED_TIMES_ENCODED: Final = 6


class Identity(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """The metadata of an object that is needed to delete it."""

    name: str
    uid: str = ""
    deletion_timestamp: str | None = None


class Partial(Counted, frozen=True):
    """An object of which only the metadata is read."""

    metadata: Identity


_PARTIAL_PAGE: Final = msgspec.json.Decoder(Page[Partial])


def decode(decoder: "msgspec.json.Decoder[T]", data: bytes, most: int) -> T:
    """Decode a response with at most this many counted structs; every failure is a ProtocolError."""
    try:
        return counted.decode(decoder, data, most)
    except _FAILURES as error:
        raise ProtocolError(f"unexpected JSON: {type(error).__name__}: {error}"[:300]) from error


class Plane:
    """One plane for one turn."""

    def __init__(self, client: Client, turn: Turn) -> None:
        self._client = client
        self._turn = turn

    def charge(self, size: int) -> None:
        """Charge so many bytes until the turn ends."""
        self._turn.charge(size)

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the deadline of the call
        max_body: int = WRITE_BYTES,
    ) -> Answer:
        """Make one call and return the response whatever its status. The caller decodes it before it awaits anything."""
        with self._charged() as charge:
            return await self._client.transport.exchange(
                method, path, params=params, body=body, headers=headers, timeout=timeout, max_body=max_body, charge=charge
            )

    @contextlib.contextmanager
    def _charged(self) -> Iterator[Callable[[int], None]]:
        """Charge the turn with a response while it arrives, and release it when the caller has it."""
        arrived = 0

        def charge(size: int) -> None:
            nonlocal arrived
            self._turn.arrived(size)
            arrived += size

        try:
            yield charge
        finally:
            self._turn.release(arrived)

    # -- reading

    async def get(
        self,
        r: Resource,
        name: str,
        namespace: str | None = None,
        *,
        shape: "msgspec.json.Decoder[T]",
        metadata_only: bool = False,
    ) -> T:
        """Read the named fields of one object."""
        accept = METADATA_ONLY if metadata_only else JSON
        data = await self._request("GET", r.path(namespace, name), accept=accept, max_body=OBJECT_BYTES)
        return decode(shape, data, MOST_PARTS_OF_AN_ITEM)

    async def list(
        self,
        r: Resource,
        namespace: str | None = None,
        *,
        shape: "msgspec.json.Decoder[Page[Any]]",
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        most: int,
    ) -> tuple[Obj, ...]:
        """Read the named fields of a whole list, as plain objects. Raises TooLarge if there are more than `most`."""
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        params = {"limit": str(PAGE_ITEMS)} | {name: text for name, text in selectors.items() if text}
        accept = METADATA_LIST_ONLY if metadata_only else JSON
        try:
            return await self._collect(r, r.path(namespace), shape, params, accept=accept, most=most)
        except Gone:
            return await self._collect(r, r.path(namespace), shape, params, accept=accept, most=most)

    async def first_page(self, r: Resource, namespace: str | None = None, *, label_selector: str) -> tuple[Obj, ...]:
        """The first objects with these labels, only name and UID: enough for a caller that deletes them and asks again."""
        params = {"labelSelector": label_selector, "limit": str(PAGE_ITEMS)}
        data = await self._request("GET", r.path(namespace), params=params, accept=METADATA_LIST_ONLY, max_body=PAGE_BYTES)
        page = decode(_PARTIAL_PAGE, data, PAGE_ITEMS)
        return tuple(self._kept(item) for item in page.items or ())

    async def _collect(
        self,
        r: Resource,
        path: str,
        shape: "msgspec.json.Decoder[Page[Any]]",
        params: dict[str, str],
        *,
        accept: str,
        most: int,
    ) -> tuple[Obj, ...]:
        params = dict(params)
        found: list[Obj] = []
        before, deadline = self._turn.read, asyncio.get_running_loop().time() + LIST_DEADLINE_SECONDS
        while True:
            data = await self._request("GET", path, params=params, accept=accept, max_body=PAGE_BYTES)
            try:
                page = decode(shape, data, PAGE_ITEMS * MOST_PARTS_OF_AN_ITEM)
            except ProtocolError as error:
                raise ProtocolError(f"list of {r}: {error}") from error
            del data
            found += [self._kept(item) for item in page.items or ()]
            token = page.metadata.continue_ if page.metadata is not None else ""
            if len(found) > most or (token and len(found) == most):
                raise TooLarge(f"list of {r}: more than {most} objects")
            if not token:
                return tuple(found)
            if self._turn.read - before > LIST_BYTES:
                raise TooLarge(f"list of {r}: more than {LIST_BYTES} bytes")
            if asyncio.get_running_loop().time() > deadline:
                raise Timeout(f"list of {r}: did not finish within {LIST_DEADLINE_SECONDS:g} s")
            params["continue"] = token

    def _kept(self, item: Any) -> Obj:
        self._turn.charge(_ITEM_OVERHEAD_BYTES + _DECODED_TIMES_ENCODED * len(msgspec.json.encode(item)))
        made: Obj = msgspec.to_builtins(item)
        return made

    # -- writing

    async def create(self, r: Resource, obj: Obj) -> None:
        """Create an object in the namespace that it names."""
        await self._write("POST", r.path(place(r, obj)), obj)

    async def replace(self, r: Resource, obj: Obj) -> None:
        """Replace a whole object."""
        await self._write("PUT", r.path(place(r, obj), obj["metadata"]["name"]), obj)

    async def apply(self, r: Resource, obj: Obj) -> None:
        """Server-side apply: creates or updates, and owns exactly the fields that `obj` names."""
        typed = {"apiVersion": r.api_version, "kind": r.kind} | obj
        path = r.path(place(r, obj), obj["metadata"]["name"])
        await self._write("PATCH", path, typed, content_type=APPLY_PATCH, params={"force": "true"})

    async def patch(
        self,
        r: Resource,
        name: str,
        body: Any,
        namespace: str | None = None,
        *,
        content_type: str = MERGE_PATCH,
        subresource: str | None = None,
    ) -> None:
        """Patch an object."""
        await self._write("PATCH", r.path(namespace, name, subresource), body, content_type=content_type)

    async def delete(
        self,
        r: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object; if it is already gone, that is not an error."""
        options = delete_options(
            uid=uid, resource_version=resource_version, propagation=propagation, grace_seconds=grace_seconds
        )
        try:
            await self._request("DELETE", r.path(namespace, name), body=options, accept=METADATA_ONLY)
        except NotServed:
            raise
        except NotFound:
            return

    async def delete_all(self, r: Resource, *, field_selector: str) -> None:
        """Delete all selected objects; the response about them is not read."""
        with contextlib.suppress(TooLarge):
            await self._request("DELETE", r.path(), params={"fieldSelector": field_selector}, accept=METADATA_LIST_ONLY)

    async def _write(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
    ) -> None:
        query = {"fieldManager": self._client.field_manager} | dict(params or {})
        data = codec.encode(body)
        await self._request(method, path, params=query, body=data, content_type=content_type, accept=METADATA_ONLY)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        max_body: int = WRITE_BYTES,
    ) -> bytes:
        with self._charged() as charge:
            return await self._client.transport.request(
                method,
                path,
                params=params,
                body=body,
                content_type=content_type,
                accept=accept,
                max_body=max_body,
                charge=charge,
            )
