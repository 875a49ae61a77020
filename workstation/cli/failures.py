"""Expected errors of the command line: one line with the cause, one line with the next step, and an exit code.

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
    """An error that the user can understand and act on."""

    def __init__(self, cause: str, *, next_step: str = "", code: Exit = Exit.FAILED) -> None:
        super().__init__(cause)
        self.cause = cause
        self.next_step = next_step
        self.code = code
