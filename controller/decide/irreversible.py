"""What a Tenant cannot take back once it was accepted: volumes, members of its plane, names that data contain. Pure.

The API server refuses such edits itself (`bulkhead.api.tenantedits`), except while a spec is refused: then it cannot tell what
was accepted from what was not. So each new spec is held against the last accepted one here, whatever came in between.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from bulkhead.api.conditions import Reason
from bulkhead.api.tenantedits import CLUSTER_NAME, REPLICAS, STORAGE_CLASS, VOLUME_SIZES
from controller.refusal import Refusal
from controller.sections import section_of
from controller.volumes import larger

Spec: TypeAlias = Mapping[str, Any]


def refuse(asked: Spec, accepted: Spec) -> Refusal | None:
    """Why a spec cannot follow the last accepted one, which is empty if unknown; None if it can. Names every such field."""
    faults = [fault for law in _LAWS for fault in law(asked, accepted)] if accepted else []
    return Refusal(Reason.IRREVERSIBLE, "; ".join(faults)) if faults else None


def _replicas(asked: Spec, accepted: Spec) -> Iterator[str]:
    now, before = (_at(spec, REPLICAS) for spec in (asked, accepted))
    if int(now or 0) < int(before or 0):
        text = f"{_what(now)}, but {before} was accepted and a plane gives no member back"
        yield f"{_field(REPLICAS)}: {text}; set {before}, or make another Tenant"


def _storage_class(asked: Spec, accepted: Spec) -> Iterator[str]:
    now, before = (_at(spec, STORAGE_CLASS) for spec in (asked, accepted))
    if (now or "") != (before or ""):
        todo = f"set {before}" if before else "leave it out"
        yield f"{_field(STORAGE_CLASS)}: {_what(now)}, but {_what(before)} was accepted and a volume cannot move; {todo}"


def _sizes(asked: Spec, accepted: Spec) -> Iterator[str]:
    for path in VOLUME_SIZES:
        now, before = _at(asked, path), _at(accepted, path)
        # A size that is left out is the class's: what there is stays as it is, and says so.
        if now and larger(before, now):
            yield f"{_field(path)}: {now}, but {before} was accepted and a volume never shrinks; set {before} or more"


def _cluster_name(asked: Spec, accepted: Spec) -> Iterator[str]:
    now, before = (_at(spec, CLUSTER_NAME) for spec in (asked, accepted))
    if now and before and now != before:
        text = f"{now}, but {before} was accepted, and the cluster's state and accounts contain it"
        yield f"{_field(CLUSTER_NAME)}: {text}; set {before}"


_LAWS: Final[tuple[Callable[[Spec, Spec], Iterator[str]], ...]] = (_replicas, _storage_class, _sizes, _cluster_name)


def _at(spec: Spec, path: Sequence[str]) -> Any:
    *sections, field = path
    for section in sections:
        spec = section_of(spec, section)
    return spec.get(field)


def _field(path: Sequence[str]) -> str:
    return f"spec.{'.'.join(path)}"


def _what(value: Any) -> str:
    return str(value) if value else "none"
