"""Patches as an API server applies them: JSON merge patch, and strategic merge for the fields that the syncer patches. Pure."""

from collections.abc import Mapping
from typing import Any

from bulkhead.api.objects import Obj

# Lists that are merged by a key of their entries; every other list is replaced whole.
_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "schedulingGates": "name",
    "conditions": "type",
    "volumes": "name",
    "ownerReferences": "uid",
    "env": "name",
}


def merge(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, Mapping):
        return patch
    found = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merge(found.get(key), value)
    return found


def strategic(target: Any, patch: Any) -> Any:
    """Strategic merge: as above, but lists of `_MERGE_KEYS` entry by entry, and `$patch: delete` takes an entry out."""
    if not isinstance(patch, Mapping):
        return patch
    found = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, list) and key in _MERGE_KEYS:
            merged = _merge_list(found.get(key) or [], value, _MERGE_KEYS[key])
            if merged:
                found[key] = merged
            else:
                found.pop(key, None)
        else:
            found[key] = strategic(found.get(key), value) if isinstance(value, Mapping) else value
    return found


def _merge_list(old: list[Obj], news: list[Obj], by: str) -> list[Obj]:
    entries = {entry.get(by): entry for entry in old}
    added: list[Any] = []
    for each in news:
        name = each.get(by)
        if each.get("$patch") == "delete":
            entries.pop(name, None)
            continue
        if name not in entries:
            added.append(name)
        entries[name] = strategic(entries.get(name), each)
    # What is new stands before what was there, as API servers have it.
    return [entries[name] for name in (*added, *(name for name in entries if name not in added)) if name in entries]
