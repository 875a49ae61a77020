"""By how much patches make a host pod larger, and its labels after them. Pure.

Only what a tenant may add to a pod that is there counts: labels, annotations, images, tolerations and ephemeral containers. The
platform's own notes never want for room: the labels by which a network policy isolates a pod, the number of its generation, and
the list of what was set, which counts as soon as the cache shows it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings
from syncer.translate import diff
from syncer.translate.kinds.networkpolicy import EGRESS_ISOLATED, INGRESS_ISOLATED
from syncer.translate.kinds.pod import GENERATION
from syncer.translate.metadata import APPLIED

_FREE: Final = frozenset({APPLIED, EGRESS_ISOLATED, INGRESS_ISOLATED, GENERATION, diff.ASKED_IMAGES})


def labels(patches: Sequence[diff.Patch], host: Obj) -> dict[str, str]:
    """The labels of a host pod after these patches."""
    found = dict(mapping(mapping(host.get("metadata")).get("labels")))
    for patch in patches:
        found |= mapping(mapping(patch.body.get("metadata")).get("labels"))
    return {key: value for key, value in found.items() if value is not None}


def bytes_of(patches: Sequence[diff.Patch], host: Obj) -> int:
    """The bytes that these patches add to a host pod; below 0 if they take some away."""
    there, spec = mapping(host.get("metadata")), mapping(host.get("spec"))
    return sum(
        _of_metadata(mapping(patch.body.get("metadata")), there) + _of_spec(mapping(patch.body.get("spec")), spec)
        for patch in patches
    )


def _of_metadata(change: Mapping[str, Any], there: Mapping[str, Any]) -> int:
    return sum(
        _entry(key, value) - _entry(key, mapping(there.get(field)).get(key))
        for field in ("labels", "annotations")
        for key, value in mapping(change.get(field)).items()
        if key not in _FREE
    )


def _of_spec(change: Mapping[str, Any], there: Mapping[str, Any]) -> int:
    grows = _size(change["ephemeralContainers"]) if "ephemeralContainers" in change else 0
    if "tolerations" in change:
        grows += _size(change["tolerations"]) - _size(there.get("tolerations") or [])
    for field in ("initContainers", "containers"):
        before = {entry.get("name"): entry.get("image") for entry in mappings(there.get(field))}
        grows += sum(_size(image) - _size(before.get(name)) for name, image in _images(mappings(change.get(field))))
    return grows


def _images(containers: Iterable[Mapping[str, Any]]) -> list[tuple[Any, Any]]:
    return [(entry.get("name"), entry["image"]) for entry in containers if "image" in entry]


def _entry(key: str, value: Any) -> int:
    return 0 if value is None else _size({key: value})


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))
