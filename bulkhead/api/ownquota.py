"""What a plane says of its tenant's own quota: ConfigMap `bulkhead-quota`, written by the syncer, read by people's tools.

    {"version": 1, "at": "2026-…Z", "cohort": true, "waiting": {"QuotaExceeded": 12},
     "lines":  [{"resource": "nvidia.com/gpu", "flavor": "h100", "nominal": 24, "ceiling": 40, "used": 20, "borrowed": 0,
                 "lent": 4, "borrowable": 16}],
     "limits": [{"name": "pods", "hard": "500", "used": "31"}],
     "queue":  {"<UID of a virtual pod>": {"place": 3, "startsBy": "2026-…Z"}}}

Lines are in base units (devices; millicores of cpu; bytes). Every figure is the tenant's own; others appear as amounts only.
Pods appear by UID, because every user of the plane may read the object, and pods of other namespaces are not theirs to know.
Only a picture: nothing decides by it. The tenant may write it too, so what is read here is checked again. Pure.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from bulkhead.api.ledger import Place, moment, seconds
from bulkhead.api.untrusted import mapping, mappings, text

CONFIG_MAP: Final = "bulkhead-quota"
# Every plane has it, and by convention each user may read what is in it.
NAMESPACE: Final = "kube-public"
FILE: Final = "quota.json"

MOST_LINES: Final = 64
MOST_LIMITS: Final = 64
MOST_QUEUED: Final = 48
MOST_REASONS: Final = 32
ANSWER_LIMIT_BYTES: Final = 64 * 1024
_VERSION: Final = 1
_LONGEST_NAME: Final = 317
_LARGEST: Final = 1 << 62
_COUNTS: Final = ("nominal", "ceiling", "used", "borrowed", "lent", "borrowable")
_REASON: Final = re.compile(r"[A-Za-z]{1,64}")


@dataclass(frozen=True, slots=True)
class OwnLine:
    """The tenant's numbers for one resource, or one flavor of it, in base units."""

    resource: str
    flavor: str
    nominal: int
    # All that it may hold, with everything that it may borrow.
    ceiling: int
    used: int
    borrowed: int = 0
    lent: int = 0
    # What it could borrow now.
    borrowable: int = 0


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the host's that counts something else: pods, memory, ConfigMaps. Both are quantities."""

    name: str
    hard: str
    used: str


@dataclass(frozen=True, slots=True)
class OwnQuota:
    """Everything that the object says."""

    lines: tuple[OwnLine, ...] = ()
    limits: tuple[Limit, ...] = ()
    # How many of the tenant's pods have no node, by the reason that they give; "" for those that give none yet.
    waiting: Mapping[str, int] = field(default_factory=dict)
    # The first of them in the ledger's queue, by UID.
    queue: Mapping[str, Place] = field(default_factory=dict)
    # Whether the tenant lends and borrows.
    in_cohort: bool = False


def write(own: OwnQuota, at: float) -> str:
    """The text of the object; `at` is when it was written, in seconds since 1970."""
    return json.dumps(
        {
            "version": _VERSION,
            "at": moment(at),
            "cohort": own.in_cohort,
            "waiting": dict(list(own.waiting.items())[:MOST_REASONS]),
            "lines": [asdict(line) for line in own.lines[:MOST_LINES]],
            "limits": [asdict(limit) for limit in own.limits[:MOST_LIMITS]],
            "queue": {
                uid: {"place": place.number} | ({} if place.starts_by is None else {"startsBy": moment(place.starts_by)})
                for uid, place in list(own.queue.items())[:MOST_QUEUED]
            },
        },
        indent=1,
    )


def read(config_map: Mapping[str, Any]) -> tuple[OwnQuota, str] | None:
    """What the object says, and when it was written; None where it says nothing that can be read."""
    written = text(mapping(config_map.get("data")).get(FILE))
    if not written or len(written) > ANSWER_LIMIT_BYTES:
        return None
    try:
        found = mapping(json.loads(written))
    except (ValueError, RecursionError):
        return None
    if found.get("version") != _VERSION:
        return None
    reasons = list(mapping(found.get("waiting")).items())[:MOST_REASONS]
    own = OwnQuota(
        lines=tuple(_lines(mappings(found.get("lines"), MOST_LINES))),
        limits=tuple(
            Limit(*(text(limit.get(part))[:_LONGEST_NAME] for part in ("name", "hard", "used")))
            for limit in mappings(found.get("limits"), MOST_LIMITS)
        ),
        waiting={reason: number for reason, number in reasons if is_reason(reason) and _is_count(number)},
        queue=_queue(mapping(found.get("queue"))),
        in_cohort=found.get("cohort") is True,
    )
    return own, text(found.get("at"))[:64]


def is_reason(value: str) -> bool:
    """Whether a text is a reason of a condition, or empty."""
    return not value or _REASON.fullmatch(value) is not None


def _lines(found: Iterable[Mapping[str, Any]]) -> Iterable[OwnLine]:
    for line in found:
        counts = {name: line.get(name) for name in _COUNTS}
        resource, flavor = (text(line.get(part))[:_LONGEST_NAME] for part in ("resource", "flavor"))
        if resource and all(_is_count(number) for number in counts.values()):
            yield OwnLine(resource, flavor, **{name: int(number or 0) for name, number in counts.items()})


def _queue(found: Mapping[str, Any]) -> dict[str, Place]:
    noted = [(uid, mapping(place)) for uid, place in list(found.items())[:MOST_QUEUED]]
    return {
        uid: Place(place["place"], seconds(place.get("startsBy")))
        for uid, place in noted
        if _is_count(place.get("place")) and place["place"] > 0
    }


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST
