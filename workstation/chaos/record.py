"""What a run may have left, as text in a ConfigMap on the host: written before each change, read by what undoes it. Pure.

An entry names a place and a kind: every object of that kind there with the run's label is the run's, and no other is ever
deleted; of Tenants only those that are called as the run calls its own. So a record says enough to undo a run whose process is
gone, and too little to make `stop` delete anything else.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bulkhead.api.names import TENANT_NAME_LIMIT, TENANT_NAME_PATTERN
from bulkhead.api.untrusted import mapping, mappings, sequence, text

FORM: Final = 1
KEY: Final = "record.json"
_RUN: Final = re.compile(r"chaos-[0-9a-f]{6}")
_OWN: Final = re.compile(r"-[1-9][0-9]?")
_TENANT: Final = re.compile(TENANT_NAME_PATTERN)
# What a run creates: Tenants on the host, and these in the plane of a target that it did not create.
HOST_KIND: Final = "Tenant"
PLANE_KINDS: Final = ("ValidatingWebhookConfiguration", "CustomResourceDefinition", "Namespace")
_MAX_ENTRIES: Final = 64
_MAX_NOTES: Final = 200
_NOTE_CHARACTERS: Final = 300
_MAX_BYTES: Final = 256 * 1024


class Unreadable(ValueError):  # noqa: N818 - reads as a sentence: except Unreadable
    """The record was not written by a run of this release."""


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """Objects of one kind in one place; `tenant` is empty on the host."""

    kind: str
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A run, what it may have created, and what it did."""

    run: str
    entries: tuple[Entry, ...] = ()
    # What was done, for people who read the record: the last lines.
    notes: tuple[str, ...] = ()


def is_run(name: str) -> bool:
    """Whether a text is the name of a run, and so a safe value of a label."""
    return _RUN.fullmatch(name) is not None


def is_own_tenant(run: str, name: str) -> bool:
    """Whether a tenant with a run's label is the run's. A label goes along when a Tenant is copied; a name cannot."""
    return is_run(run) and name.startswith(run) and _OWN.fullmatch(name.removeprefix(run)) is not None


def with_entries(record: Record, *entries: Entry) -> Record:
    """The record with these entries, each once. Raises ValueError for one that `stop` would not read."""
    for entry in entries:
        if _entry({"kind": entry.kind, "tenant": entry.tenant}) is None:
            raise ValueError(f"no entry of a record: {entry}")
    return replace(record, entries=tuple(dict.fromkeys((*record.entries, *entries)))[:_MAX_ENTRIES])


def with_note(record: Record, note: str) -> Record:
    """The record with one more line."""
    return replace(record, notes=(*record.notes, note[:_NOTE_CHARACTERS])[-_MAX_NOTES:])


def encode(record: Record) -> str:
    """The record as text."""
    entries = [{"kind": entry.kind, "tenant": entry.tenant} for entry in record.entries]
    return json.dumps({"form": FORM, "run": record.run, "entries": entries, "notes": list(record.notes)})


def decode(config_map: Mapping[str, Any]) -> Record:
    """The record in a ConfigMap. Raises Unreadable."""
    found = text(mapping(config_map.get("data")).get(KEY))
    if len(found.encode(errors="replace")) > _MAX_BYTES:
        raise Unreadable(f"the record has more than {_MAX_BYTES} bytes")
    try:
        document = mapping(json.loads(found))
    except (ValueError, RecursionError) as error:
        raise Unreadable("the record is not JSON") from error
    if document.get("form") != FORM:
        raise Unreadable(f"the record has form {str(document.get('form'))[:20]}, and this release reads form {FORM}")
    run = text(document.get("run"))
    if not is_run(run):
        raise Unreadable("the record names no run")
    entries = [_entry(entry) for entry in mappings(document.get("entries"), _MAX_ENTRIES)]
    if None in entries or len(sequence(document.get("entries"))) != len(entries):
        raise Unreadable("the record names something that no run creates")
    notes = [text(note)[:_NOTE_CHARACTERS] for note in sequence(document.get("notes"))[-_MAX_NOTES:]]
    return Record(run, tuple(entry for entry in entries if entry is not None), tuple(notes))


def _entry(found: Mapping[str, Any]) -> Entry | None:
    kind, tenant = text(found.get("kind")), text(found.get("tenant"))
    if tenant:
        named = _TENANT.fullmatch(tenant) is not None and len(tenant) <= TENANT_NAME_LIMIT
        return Entry(kind, tenant) if named and kind in PLANE_KINDS else None
    return Entry(kind) if kind == HOST_KIND else None
