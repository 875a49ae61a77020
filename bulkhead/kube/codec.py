"""JSON on the wire: msgspec with one kind of error, and bodies that are cut down without being decoded.

A hostile server may send anything, so each way in which decoding can fail is a ProtocolError.
"""

from dataclasses import dataclass
from sys import intern
from typing import Any, TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

from bulkhead.api.objects import Obj
from bulkhead.kube.errors import ProtocolError
from bulkhead.kube.objects import Meta

_T = TypeVar("_T")
_FAILURES = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_meta = msgspec.json.Decoder(Meta)


class _Envelope(msgspec.Struct, gc=False):
    metadata: Meta = Meta()


class _Page(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: "_PageMeta | None" = None


class _PageMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


_envelope = msgspec.json.Decoder(_Envelope)
_page = msgspec.json.Decoder(_Page)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: bodies still encoded."""

    items: list[msgspec.Raw]
    resource_version: str
    next_page: str


def encode(obj: Any) -> bytes:
    """Encode a plain object."""
    return msgspec.json.encode(obj)


def decode(data: bytes | msgspec.Raw) -> Any:
    """Decode any JSON."""
    try:
        return msgspec.json.decode(data)
    except _FAILURES as error:
        raise ProtocolError(f"not JSON: {_brief(error)}") from error


def decode_obj(data: bytes | msgspec.Raw) -> Obj:
    """Decode an object; anything but a JSON object is a ProtocolError."""
    decoded = decode(data)
    if not isinstance(decoded, dict):
        raise ProtocolError(f"not an object: JSON {type(decoded).__name__}")
    return decoded


def decode_meta(data: bytes | msgspec.Raw) -> Meta:
    """Decode the metadata of an encoded object and skip the rest."""
    return decode_with(_envelope, data).metadata


def plain_meta(meta: Meta) -> Obj:
    """Decoded metadata as a plain object; what is not set is left out."""
    made: Obj = {field: value for field, value in msgspec.to_builtins(meta).items() if value}
    return made


def decode_page(data: bytes) -> Page:
    """Split a list answer into its encoded items."""
    page = decode_with(_page, data)
    meta = page.metadata or _PageMeta()
    return Page(page.items or [], meta.resource_version, meta.continue_)


def decode_with(decoder: "msgspec.json.Decoder[_T]", data: bytes | msgspec.Raw) -> _T:
    """Run a typed decoder under this module's error rule."""
    try:
        return decoder.decode(data)
    except _FAILURES as error:
        raise ProtocolError(f"unexpected JSON: {_brief(error)}") from error


def compact(data: bytes | msgspec.Raw, meta: Meta | None = None) -> tuple[Meta, bytes]:
    """Return metadata and a copy of the object without `managedFields`, which is often half of it.

    The copy matters: a Raw is a window into the whole answer and would keep all of it alive. What labels and annotations of
    many objects have in common is kept once; interned strings die with their last holder, so they cannot fill memory.
    """
    fields = decode_with(_fields, data)
    raw_meta = fields.get("metadata")
    if raw_meta is None:
        raise ProtocolError("unexpected JSON: object without metadata")
    if meta is None:
        meta = decode_with(_meta, raw_meta)
    for field in ("labels", "annotations"):
        shared = getattr(meta, field)
        if shared:
            force_setattr(meta, field, {intern(key): intern(value) for key, value in shared.items()})
    inner = decode_with(_fields, raw_meta)
    if inner.pop("managedFields", None) is not None:
        fields["metadata"] = msgspec.Raw(msgspec.json.encode(inner))
    return meta, msgspec.json.encode(fields)


def bare(data: bytes | msgspec.Raw, meta: Meta | None = None) -> tuple[Meta, bytes]:
    """Return names, version and labels of an object, and no more: its annotations may hold the whole object once again."""
    known = decode_meta(data) if meta is None else meta
    kept = replace(known, annotations=None, finalizers=None, owner_references=None)
    return kept, encode({"metadata": plain_meta(kept)})


def _brief(error: BaseException) -> str:
    # Decoder messages name a position or a field, never content; the cap guards against versions that do otherwise.
    return f"{type(error).__name__}: {error}"[:200]
