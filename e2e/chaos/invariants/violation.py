"""What every check of an invariant returns, and the time in which a disturbance counts as its target's. Pure."""

from dataclasses import dataclass

from e2e.chaos.history import History, hits, time_of

QUIET_SECONDS = 30.0  # how long after the last disturbance of its tenant something may still be reported or repaired
SLACK_SECONDS = 2.0  # the watches of two API servers do not share a clock


@dataclass(frozen=True, slots=True)
class Violation:
    """One invariant that did not hold. `slow` ones say that requests were answered, and too late."""

    invariant: str
    experiment: str
    text: str
    slow: bool = False


def is_target(history: History, owner: str, at: float) -> bool:
    """Whether an experiment had this owner as its target then or shortly before; restarts are reported late."""
    return any(hits(item, owner) and time_of(item) <= at < item.end + QUIET_SECONDS for item in history.disturbed)


def experiment_at(history: History, at: float) -> str:
    """The experiment that was prepared, measured or cleared away last."""
    begun = [item for item in history.disturbed if time_of(item) <= at]
    return begun[-1].experiment if begun else "baseline"
