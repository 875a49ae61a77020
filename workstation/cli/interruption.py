"""Ctrl-C while a command waits in a call that blocks: for the user's answer, for a program that it started, for a lock.

In an event loop Ctrl-C cancels the command's task, and the task notices at its next `await`. A call that blocks does not come
to one: Python resumes the call after the signal (PEP 475).
"""

import contextlib
import signal
import threading
from collections.abc import Iterator

from workstation.cli.failures import CliError, Exit


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Within the block Ctrl-C raises KeyboardInterrupt at once, in an event loop too. In a thread nothing changes."""
    before = signal.getsignal(signal.SIGINT)
    # What was started to ignore Ctrl-C, as a script starts what it leaves behind, still ignores it. A thread gets no signals.
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def passed_on() -> CliError:
    """Give a Ctrl-C that `at_once` took to the event loop, and return the error for a command that has not begun its work.

    The error alone would not end a run that takes it for the failure of one step. Raises KeyboardInterrupt without a loop.
    """
    signal.raise_signal(signal.SIGINT)
    return CliError("interrupted", code=Exit.INTERRUPTED)
