"""Asks the user to type a tenant's name before something is lost for good."""

import sys

from workstation.cli import interruption
from workstation.cli.failures import CliError, Exit


def ask(name: str, cost: str, warning: str, refused: str) -> None:
    """Return if the user typed the name. Raise CliError and change nothing without a terminal or with another name.

    `cost` is the error's text if stdin is not a terminal, `warning` is the prompt, and `refused` tells what was not done. It
    blocks the caller's event loop, and Ctrl-C ends it all the same.
    """
    if not sys.stdin.isatty():
        raise CliError(
            f"tenant {name}: {cost}, which needs confirmation, and stdin is not a terminal",
            next_step="confirm with --yes",
            code=Exit.USAGE,
        )
    try:
        # Before the prompt: the one who reads it may press Ctrl-C at once.
        with interruption.at_once():
            sys.stderr.write(f"{warning}. Type its name to continue: ")
            sys.stderr.flush()
            answer = sys.stdin.readline()
    except KeyboardInterrupt:
        raise CliError(f"interrupted: {refused}", code=Exit.INTERRUPTED) from None
    if answer.strip() != name:
        raise CliError(f"{refused}: the name does not match")
