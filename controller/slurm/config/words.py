"""What may stand in one of Slurm's text files: single words, and quoted texts on one line.

Pure. Every expression of a template passes `checked` before it is written (the environment's `finalize`), so that no value
can begin a line, continue one, comment one out or begin a second key. Slurm has no way to escape a character: what does not
fit is refused.
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
    """Whether a text can stand left of `=`."""
    return _KEY.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Whether a text can stand right of `=`: one word, or one text in double quotes."""
    return _WORD.fullmatch(text) is not None or _QUOTED.fullmatch(text) is not None


def checked(value: Any) -> str:
    """The value as text; raises `UnsafeTextError` when it is not a single word or quoted text."""
    text = str(value)
    if is_value(text):
        return text
    raise UnsafeTextError(f"a value for Slurm's configuration: {text[:64]!r} is neither one word nor one quoted text")
