"""Checks what is written into Slurm's text files: only single words, and quoted texts on one line.

Pure. Every expression of a template passes `checked` before it is written (the environment's `finalize`), so no value can begin
a line, continue one, comment one out or begin a second key. Slurm has no way to escape a character, so unsuitable values are
refused.
"""

import re
from typing import Any, Final

# No blank, no quote, no backslash (continues a line), no `#` (begins a comment, within quotes too).
_WORD: Final = re.compile(r"[A-Za-z0-9_.,:;/+@%*!^~|&?<>()\[\]{}=-]{1,4096}")
_QUOTED: Final = re.compile(r'"[A-Za-z0-9 _.,:;/+@%*!^~|&?<>()\[\]{}=\'-]{0,4096}"')
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


class UnsafeTextError(ValueError):
    """A value cannot be written into a file of Slurm."""


def is_key(text: str) -> bool:
    """Whether a text can be a key, left of `=`."""
    return _KEY.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Whether a text can be a value, right of `=`: one word, or one text in double quotes."""
    return _WORD.fullmatch(text) is not None or _QUOTED.fullmatch(text) is not None


def checked(value: Any) -> str:
    """The value as text; raises `UnsafeTextError` when it is not a single word or quoted text."""
    text = str(value)
    if is_value(text):
        return text
    raise UnsafeTextError(f"a value of Slurm's configuration must be one word or one quoted text, not {text[:64]!r}")
