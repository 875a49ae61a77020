"""Whether an API server refused a write because it would change a field that never changes. Pure.

Trying again brings nothing then, however long: a person has to act, so it is said and everything else goes on.
"""

import re
from typing import Final

_WORDS: Final = re.compile(
    r"immutable|may not change once set|may not be changed|cannot change|can not be unset|spec for fields other than"
)
_INVALID: Final = 422


def unchangeable(status: int, words: str) -> bool:
    """Whether that is why a server refused; each kind has words of its own for it, and all of them one status."""
    return status == _INVALID and in_words(words)


def in_words(words: str) -> bool:
    """The same by its words alone."""
    return _WORDS.search(words) is not None
