"""Messages about a change of a volume that cannot be made: its present value, the requested one, and what to do. Pure."""

from typing import Any

from bulkhead.api.quantity import InvalidQuantityError, parse


def larger(one: Any, other: Any) -> bool:
    """Whether one size is larger than another; False if one of them cannot be parsed."""
    try:
        return parse(one) > parse(other)
    except InvalidQuantityError:
        return False


def never_shrinks(claim: str, has: Any, asked: Any) -> str:
    """The message for a claim that is requested smaller than it is."""
    return f"{claim} stays at {has}: {asked} is requested, but a volume never shrinks; request {has} or more"


def never_moves(claim: str, has: Any, asked: Any) -> str:
    """The message for a claim that is requested in another StorageClass."""
    text = "a volume cannot move; set its class again, or leave it: only new volumes use the other class"
    return f"{claim} stays in StorageClass {has or 'none'}: {asked} is requested, but {text}"


def not_grown(claim: str, has: Any, asked: Any, storage_class: Any, words: str) -> str:
    """The message for a claim whose growth the host refused."""
    if "must support resize" in words:
        todo = f"set allowVolumeExpansion: true on StorageClass {storage_class or 'of its own'}, if its driver can grow volumes"
    elif "cannot patch" in words:
        todo = "restore the controller's role: run helm upgrade with the chart of this version"
    else:
        todo = "fix what the host reports"
    return f"{claim} stays at {has}: {asked} is requested, but the host refused: {words}; {todo}, or leave it as it is"
