"""That a restore is at work. Pure."""

from typing import Final

from bulkhead.api.conditions import Reason
from controller.restores.decide import Step
from controller.restores.status import MESSAGES
from controller.tenant.status import Report
from controller.verdict import Verdict

# Nothing tells when the keys are there or the command has died.
_LOOK_SECONDS: Final = 1.0


def report(step: Step | None, words: str = "") -> Report:
    """`step` is the present one; None if no restore is at work. `words`: more than its own."""
    if step is None:
        return Report()
    if step is Step.AWAIT_KEYS:
        # The plane is as it was.
        return Report(remarks=("a restore waits for its keys",), again=_LOOK_SECONDS)
    return Report(alarm=Verdict("False", Reason.RESTORING, words or MESSAGES[step][1]), again=_LOOK_SECONDS)
