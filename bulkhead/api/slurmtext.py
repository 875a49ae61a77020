"""The answers of slurmrestd as UTF-8. Pure.

Users' texts (a comment, a command line) may be any bytes, and slurmrestd writes them into its JSON as they are. One such text
must not make the answer about all jobs unreadable.
"""

import codecs
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
_CHUNK_BYTES: Final = 64 * 1024
_QUESTION_MARKS: Final = "bulkhead.question-marks"


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """As many question marks as there are wrong bytes, so that the text takes no more memory than before."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?" * (error.end - error.start), error.end


codecs.register_error(_QUESTION_MARKS, _replaced)


def as_utf8(data: bytes) -> bytes:
    """The same answer, with `?` for every byte that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")(_QUESTION_MARKS)
    chunks = [decoder.decode(data[at : at + _CHUNK_BYTES]).encode() for at in range(0, len(data), _CHUNK_BYTES)]
    return b"".join([*chunks, decoder.decode(b"", final=True).encode()])


def decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    """What a decoder makes of an answer, with `?` for what is not UTF-8. Raises what the decoder raises otherwise."""
    try:
        return decode(data)
    except UnicodeDecodeError:
        return decode(as_utf8(data))
