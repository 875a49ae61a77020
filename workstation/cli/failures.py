"""Expected errors of the command line: one line of cause, one line of what to do next, and an exit code.

0 done   1 failed   2 wrong usage   3 not found   4 a wait ran out of time   130 interrupted
"""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes, documented in `bulkhead --help`."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    TIMEOUT = 4
    INTERRUPTED = 130


class CliError(Exception):
    """Something that a person can understand and act upon."""

    def __init__(self, cause: str, *, next_step: str = "", code: Exit = Exit.FAILED) -> None:
        super().__init__(cause)
        self.cause = cause
        self.next_step = next_step
        self.code = code
