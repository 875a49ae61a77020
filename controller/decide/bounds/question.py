"""What a policy of a class's bounds is asked and yields, and how it compares names and quantities. Pure."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from bulkhead.api.quantity import InvalidQuantityError, parse

Section: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What a Tenant requests, and what its class and the installation offer."""

    asked: Section
    offer: Section
    storage_class: str = ""  # the installation's, if the class names none
    tenant: str = ""
    domains: tuple[str, ...] = ()  # the installation's domains, in which tenants have names
    has_proxy: bool = False


@dataclass(frozen=True, slots=True)
class Excess:
    """One field that exceeds the class: its path in the spec, and the message with both values."""

    path: tuple[str, ...]
    message: str
    # The part that the class allows; None if it allows nothing, and then the class's value applies.
    instead: Any = None


Policy: TypeAlias = Callable[[Question], Iterator[Excess]]


def choice(path: tuple[str, ...], asked: str | None, own: str | None, listed: Any) -> Iterator[Excess]:
    """A name must be the class's own, or one that it lists."""
    allowed = [*((own,) if own else ()), *(listed or ())]
    if asked and asked not in allowed:
        known = ", ".join(allowed) or "none may be named"
        yield Excess(path, f"spec.{'.'.join(path)}: {asked} is not one that the class allows: {known}")


def is_more(asked: Any, allowed: Any) -> bool:
    """Whether one quantity exceeds another; one that cannot be compared counts as too large."""
    try:
        return parse(asked) > parse(allowed)
    except InvalidQuantityError:
        return True


def larger(one: Any, other: Any) -> Any:
    """The larger of two quantities; of one and None the one."""
    if one is None or other is None:
        return other if one is None else one
    return one if is_more(one, other) else other
