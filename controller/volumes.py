"""What is said of a volume that is asked to become another: from what it has, to what is asked for, and what to do. Pure."""

from typing import Any

from bulkhead.api.quantity import InvalidQuantityError, parse


def larger(one: Any, other: Any) -> bool:
    """Whether one size is more than another; what cannot be read is not."""
    try:
        return parse(one) > parse(other)
    except InvalidQuantityError:
        return False


def never_shrinks(claim: str, has: Any, asked: Any) -> str:
    """Of a claim that is to have less than it has."""
    return f"{claim} stays at {has}: {asked} is asked for, and a volume never shrinks; ask for {has} or more"


def never_moves(claim: str, has: Any, asked: Any) -> str:
    """Of a claim that is to be of another StorageClass."""
    text = "a volume cannot move: name its class again, or leave it, new volumes alone are of the other one"
    return f"{claim} stays in StorageClass {has or 'none'}: {asked} is asked for, and {text}"


def not_grown(claim: str, has: Any, asked: Any, storage_class: Any, words: str) -> str:
    """Of a claim that was refused more than it has."""
    if "must support resize" in words:
        todo = f"set allowVolumeExpansion: true on StorageClass {storage_class or 'of its own'}, if its driver can grow volumes"
    elif "cannot patch" in words:
        todo = "give the controller's role its rights back: helm upgrade with the chart of this version does"
    else:
        todo = "fix what the host names"
    return f"{claim} stays at {has}: {asked} is asked for, and the host refused: {words}; next: {todo}, or leave it as it is"
