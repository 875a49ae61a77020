"""Guesses which existing name a user meant by one that does not exist. Pure."""

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from workstation.cli.output import plain

_MAX_NAMES: Final = 5000


def did_you_mean(name: str, there: Iterable[str], otherwise: str, shown: Mapping[str, str] = MappingProxyType({})) -> str:
    """A next step: the most similar names, each as `shown` writes it; `otherwise` if none is similar."""
    known = sorted(set(there))[:_MAX_NAMES]
    found = (
        difflib.get_close_matches(name, known, n=3, cutoff=0.7)
        or [candidate for candidate in known if name and name in candidate][:3]
    )
    return f"did you mean {' or '.join(plain(shown.get(name, name), 300) for name in found)}?" if found else otherwise
