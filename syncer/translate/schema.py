"""An allowlist as data: copies what a schema names out of an untrusted value, and refuses the rest with the field's path.

Every object of a plane is hostile input. A schema is a tree of rules; `copy` walks the schema, never the value, so depth and
size of what it visits are bounded whatever was sent. Nothing it returns shares structure with its input.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bulkhead.api.quantity import InvalidQuantityError, parse
from syncer.translate.reasons import Reason, Untranslatable

MOST_ITEMS: Final = 1000
MOST_TEXT: Final = 1 << 20
_INT64: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Struct:
    """A mapping with known fields. A field that is absent or null is left out."""

    fields: Mapping[str, "Rule"]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A bounded list."""

    item: "Rule"
    most: int = MOST_ITEMS


@dataclass(frozen=True, slots=True)
class MapOf:
    """A bounded mapping of free keys."""

    item: "Rule"
    most: int = MOST_ITEMS


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few texts."""

    allowed: tuple[str, ...]
    reason: Reason = Reason.MALFORMED


@dataclass(frozen=True, slots=True)
class Number:
    """An integer within bounds."""

    least: int = -_INT64
    most: int = _INT64 - 1


@dataclass(frozen=True, slots=True)
class Refused:
    """A known field that may not be used. Values that ask for nothing (false, empty) pass and are left out."""

    message: str
    reason: Reason = Reason.NOT_ALLOWED


@dataclass(frozen=True, slots=True)
class Dropped:
    """A known field that is left out on the host, and why that is safe."""

    why: str


@dataclass(frozen=True, slots=True)
class Translated:
    """A known field that code beside the schema puts on the host; `copy` leaves it out."""

    where: str


@dataclass(frozen=True, slots=True)
class Text:
    """A text; `most` in characters."""

    most: int = MOST_TEXT


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean."""


@dataclass(frozen=True, slots=True)
class IntOrText:
    """A port or a quantity of something: a number or a text."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A resource quantity, not negative."""


Rule: TypeAlias = Struct | ListOf | MapOf | OneOf | Number | Refused | Dropped | Translated | Text | Flag | IntOrText | Quantity

TEXT: Final = Text()
NAME: Final = Text(253)
FLAG: Final = Flag()
COUNT: Final = Number(0, (1 << 31) - 1)
PORT: Final = Number(1, 65535)
INT_OR_TEXT: Final = IntOrText()
QUANTITY: Final = Quantity()
TEXT_MAP: Final = MapOf(TEXT)


def copy(value: Any, rule: Rule, path: str) -> Any:
    """The part of `value` that `rule` allows, as new structure; None where nothing remains."""
    if value is None:
        return None
    return _COPIERS[type(rule)](value, rule, path)


def struct(value: Any, rule: Struct, path: str) -> dict[str, Any]:
    """`copy` for a mapping that must be there; absent counts as empty."""
    found: dict[str, Any] = copy({} if value is None else value, rule, path)
    return found


def mapping(value: Any, path: str) -> Mapping[str, Any]:
    """`value` as a mapping for reading; absent counts as empty."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Untranslatable(Reason.MALFORMED, f"expected an object, got {_kind(value)}", path)
    return value


def items(value: Any, path: str, most: int = MOST_ITEMS) -> list[tuple[str, Mapping[str, Any]]]:
    """A list of mappings as pairs of path and mapping; absent counts as empty."""
    return [(at, mapping(item if item is not None else {}, at)) for at, item in values(value, path, most)]


def values(value: Any, path: str, most: int = MOST_ITEMS) -> list[tuple[str, Any]]:
    """A list as pairs of path and item; absent counts as empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Untranslatable(Reason.MALFORMED, f"expected a list, got {_kind(value)}", path)
    if len(value) > most:
        raise Untranslatable(Reason.TOO_LARGE, f"{len(value)} entries, at most {most} are mirrored", path)
    return [(f"{path}[{index}]", item) for index, item in enumerate(value)]


def text(value: Any, path: str, most: int = MOST_TEXT) -> str:
    """`value` as a text; absent counts as empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Untranslatable(Reason.MALFORMED, f"expected a text, got {_kind(value)}", path)
    if len(value) > most:
        raise Untranslatable(Reason.TOO_LARGE, f"{len(value)} characters, at most {most} are mirrored", path)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Untranslatable(Reason.MALFORMED, "not valid Unicode", path) from error
    return value


def texts(value: Any, path: str) -> list[str]:
    """A list of texts; absent counts as empty."""
    return [text(item, at) for at, item in values(value, path)]


def text_map(value: Any, path: str) -> dict[str, str]:
    """A mapping of texts; absent counts as empty."""
    found: dict[str, str] = copy({} if value is None else value, TEXT_MAP, path)
    return found


def flag(value: Any, path: str) -> bool | None:
    """`value` as a boolean or absent."""
    if value is None or isinstance(value, bool):
        return value
    raise Untranslatable(Reason.MALFORMED, f"expected true or false, got {_kind(value)}", path)


def number(value: Any, path: str, least: int = -_INT64, most: int = _INT64 - 1) -> int | None:
    """`value` as a bounded integer or absent."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < _INT64:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Untranslatable(Reason.MALFORMED, f"expected a whole number, got {_kind(value)}", path)
    if not least <= value <= most:
        raise Untranslatable(Reason.MALFORMED, f"{str(value)[:32]} is not between {least} and {most}", path)
    return value


def key_path(path: str, key: Any) -> str:
    """The path of a field, with keys that came from outside bounded."""
    plain = str(key)[:64].encode("utf-8", "replace").decode()
    return f"{path}.{plain}" if path else plain


def _kind(value: Any) -> str:
    return type(value).__name__


def _copy_struct(value: Any, rule: Struct, path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in mapping(value, path).items():
        if item is None:
            continue
        field_rule = rule.fields.get(key) if isinstance(key, str) else None
        if field_rule is None:
            raise Untranslatable(
                Reason.UNKNOWN_FIELD, "this field is not known to the platform, remove it", key_path(path, key)
            )
        copied = copy(item, field_rule, key_path(path, key))
        if copied is not None:
            found[key] = copied
    return found


def _copy_list(value: Any, rule: ListOf, path: str) -> list[Any]:
    copied = (copy({} if item is None else item, rule.item, at) for at, item in values(value, path, rule.most))
    return [item for item in copied if item is not None]


def _copy_map(value: Any, rule: MapOf, path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    plain = mapping(value, path)
    if len(plain) > rule.most:
        raise Untranslatable(Reason.TOO_LARGE, f"{len(plain)} entries, at most {rule.most} are mirrored", path)
    for key, item in plain.items():
        name = text(key, path, 317)
        copied = copy(item, rule.item, key_path(path, name))
        if copied is not None:
            found[name] = copied
    return found


def _copy_one_of(value: Any, rule: OneOf, path: str) -> str:
    found = text(value, path)
    if found not in rule.allowed:
        raise Untranslatable(rule.reason, f"{found[:64]!r} is not one of {', '.join(filter(None, rule.allowed))}", path)
    return found


def _copy_refused(value: Any, rule: Refused, path: str) -> None:
    # false and empty ask for nothing; 0 may mean something
    if value is False or (isinstance(value, (str, list, dict)) and not value):
        return
    raise Untranslatable(rule.reason, rule.message, path)


def _copy_int_or_text(value: Any, _rule: IntOrText, path: str) -> int | str | None:
    return text(value, path) if isinstance(value, str) else number(value, path)


def _copy_quantity(value: Any, _rule: Quantity, path: str) -> str | int:
    try:
        parse(value)
    except InvalidQuantityError as error:
        raise Untranslatable(Reason.MALFORMED, str(error), path) from error
    return value if isinstance(value, int) else str(value)


def _nothing(_value: Any, _rule: Any, _path: str) -> None:
    return None


_COPIERS: Final[Mapping[type, Callable[[Any, Any, str], Any]]] = {
    Struct: _copy_struct,
    ListOf: _copy_list,
    MapOf: _copy_map,
    OneOf: _copy_one_of,
    Number: lambda value, rule, path: number(value, path, rule.least, rule.most),
    Refused: _copy_refused,
    Dropped: _nothing,
    Translated: _nothing,
    Text: lambda value, rule, path: text(value, path, rule.most),
    Flag: lambda value, _rule, path: flag(value, path),
    IntOrText: _copy_int_or_text,
    Quantity: _copy_quantity,
}
