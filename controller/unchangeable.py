"""Whether an API server rejected a write because it would change an immutable field. Pure.

A retry never succeeds then, and a person has to act. So the fault is reported, and everything else goes on.
"""

import re
from typing import Final

_WORDS: Final = re.compile(
    r"immutable|may not change once set|may not be changed|cannot change|can not be unset|spec for fields other than"
)
_INVALID: Final = 422


def unchangeable(status: int, words: str) -> bool:
    """Whether a server rejected a write for this reason. The words differ by kind, the HTTP status does not."""
    return status == _INVALID and in_words(words)


def in_words(words: str) -> bool:
    """The same, from the words only."""
    return _WORDS.search(words) is not None
