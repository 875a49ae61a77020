"""The further places for snapshots that an installation offers by name, as its settings give them. Pure.

A class names one, so the snapshots of its tenants go there and nowhere else, with credentials that open nothing else.
"""

import re
from dataclasses import dataclass
from typing import Final

import msgspec

from bulkhead.api.names import MOST_TARGETS, TARGET_NAME_LIMIT, TARGET_NAME_PATTERN
from bulkhead.snapshots.place import Place, check_recipient, parse

_NAME: Final = re.compile(TARGET_NAME_PATTERN)
_WORDS: Final = 200


class _Given(msgspec.Struct, forbid_unknown_fields=True):
    target: str
    endpoint: str = ""
    region: str = ""
    plain_http: bool = msgspec.field(default=False, name="plainHTTP")
    recipients: list[str] = []


_decoder = msgspec.json.Decoder(dict[str, _Given])


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """One place, and the public keys that what is stored there is encrypted to."""

    name: str
    place: Place
    recipients: tuple[str, ...]


def read(text: str, usual: tuple[str, ...] = ()) -> tuple[NamedTarget, ...]:
    """The targets in a JSON object by name; `usual` are the recipients of one that has none. Raises ValueError."""
    try:
        found = _decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"must be a JSON object of targets by name: {error}"[:_WORDS]) from error
    if len(found) > MOST_TARGETS:
        raise ValueError(f"has {len(found)} targets, and at most {MOST_TARGETS} are allowed")
    return tuple(_target(name, given, usual) for name, given in sorted(found.items()))


def _target(name: str, given: _Given, usual: tuple[str, ...]) -> NamedTarget:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:60]!r} must be a name of at most {TARGET_NAME_LIMIT} letters, digits and hyphens")
    place = parse(given.target, endpoint=given.endpoint, region=given.region, plain_http=given.plain_http)
    recipients = tuple(check_recipient(recipient) for recipient in given.recipients) or usual
    if not recipients:
        raise ValueError(f"target {name}: needs at least one age public key: snapshots hold the keys of planes")
    return NamedTarget(name, place, recipients)
