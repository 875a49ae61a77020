"""Counts the GPUs that a text of Slurm about a node or a job names: `gres/gpu:h100=4`, `gpu:2(S:0-1)`, `gpu:1k`.

Pure; the texts are hostile input.
"""

import re
from collections.abc import Iterator
from typing import Final

_TEXT_CHARACTERS: Final = 4096
_MOST_ENTRIES: Final = 256
_INDICES: Final = re.compile(r"\([^()]*\)")
_GPU: Final = re.compile(r"gres[/:]gpu(?:[:=](.+))?")
_COUNT: Final = re.compile(r"([0-9]+)([kmgtp]?)", re.IGNORECASE)
_TIMES: Final = {"": 1} | {suffix: 1024**power for power, suffix in enumerate("kmgtp", start=1)}


def gpus_in(tres: str) -> int:
    """How many GPUs a TRES text names: `cpu=8,gres/gpu=4,gres/gpu:h100=4` are four, not eight."""
    found = list(_named(tres))
    plain = [number for kind, number in found if not kind]
    return sum(plain or [number for _, number in found])


def types_in(tres: str) -> frozenset[str]:
    """The types of GPUs that a TRES text names, in lower case."""
    return frozenset(kind.lower() for kind, number in _named(tres) if kind and number)


def prefixed(text: str) -> str:
    """A request in the form `gres:gpu:2`; users may also write `gpu:2`."""
    parts = _INDICES.sub("", text[:_TEXT_CHARACTERS]).split(",")[:16]
    return ",".join(part if part.startswith("gres") else f"gres/{part}" for part in parts)


def _named(tres: str) -> Iterator[tuple[str, int]]:
    """Type and number of each entry about GPUs; the type is empty if none is named."""
    for entry in tres[:_TEXT_CHARACTERS].split(",")[:_MOST_ENTRIES]:
        gpu = _GPU.fullmatch(entry)
        if gpu is None:
            continue
        words = re.split("[:=]", gpu[1]) if gpu[1] else []
        number = _COUNT.fullmatch(words[-1]) if words else None
        # Without a number the only word is a type, of which one is meant.
        kind = words[0] if len(words) > 1 or (words and number is None) else ""
        yield kind, int(number[1]) * _TIMES[number[2].lower()] if number else 1
