"""The invariants as checks over a recorded history. Pure: no clock, no network.

    pods        I1 one host pod for each virtual pod, I8 no host pod deleted whose virtual pod lives
    held        I2 GPUs within limits, I7 policies hold for all host objects, I10 no secret leaves its tenant
    writes      I3 acknowledged writes are kept, I9 the platform becomes quiet
    neighbours  I4 other tenants and I5 the host's API are unharmed, I6 nothing else restarts
    proof       I11 every fault is proven, and its hypothesis is recorded before

Each check returns violations as sentences; an empty list means that the invariant held. If the history shows too little to
judge, that is a violation too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from e2e.chaos.history import CONTROLLER, HOST, History
from e2e.chaos.invariants.held import policies_hold, secrets_kept, within_limits
from e2e.chaos.invariants.neighbours import (
    AIM,
    POD,
    SPARE_CORES,
    LatencyBound,
    baseline_p99,
    bound_of,
    host_unharmed,
    neighbours_unharmed,
    no_restart_elsewhere,
    too_busy,
)
from e2e.chaos.invariants.pods import one_to_one, only_wanted_deletions
from e2e.chaos.invariants.proof import faults_proven
from e2e.chaos.invariants.violation import QUIET_SECONDS, SLACK_SECONDS, Violation
from e2e.chaos.invariants.writes import LONGEST_CONVERGENCE, acknowledged_kept, becomes_quiet

__all__ = [
    "AIM",
    "CONTROLLER",
    "HOST",
    "LONGEST_CONVERGENCE",
    "POD",
    "QUIET_SECONDS",
    "SLACK_SECONDS",
    "SPARE_CORES",
    "TITLES",
    "LatencyBound",
    "Violation",
    "acknowledged_kept",
    "baseline_p99",
    "becomes_quiet",
    "bound_of",
    "check_all",
    "faults_proven",
    "host_unharmed",
    "neighbours_unharmed",
    "no_restart_elsewhere",
    "one_to_one",
    "only_wanted_deletions",
    "policies_hold",
    "secrets_kept",
    "too_busy",
    "within_limits",
]

TITLES: Final[Mapping[str, str]] = {
    "I1": "one host pod for each virtual pod, and never two",
    "I2": "no node, tenant or device is used beyond its limit",
    "I3": "no acknowledged write is lost",
    "I4": "other tenants: no error, and p99 within the bound",
    "I5": "the host's API: no error, no rejection, p99 within the bound",
    "I6": "nothing outside the target restarts, and the leader stays",
    "I7": "no host object is against the policies",
    "I8": "no host pod is deleted while its virtual pod lives",
    "I9": "the platform becomes quiet after each fault",
    "I10": "no secret leaves its tenant",
    "I11": "every fault is proven, and its hypothesis recorded before",
}


def check_all(
    history: History,
    baseline: Mapping[str, float],
    experiments: Sequence[str],
    bound: LatencyBound = AIM,
    quiet_seconds: float = 1.0,
) -> list[Violation]:
    """All of them, in the order of their numbers."""
    checks: tuple[Callable[[History], list[Violation]], ...] = (
        one_to_one,
        within_limits,
        acknowledged_kept,
        no_restart_elsewhere,
        policies_hold,
        only_wanted_deletions,
        secrets_kept,
    )
    found = [violation for check in checks for violation in check(history)]
    found += neighbours_unharmed(history, baseline, bound) + host_unharmed(history, baseline, bound)
    found += becomes_quiet(history, quiet_seconds) + faults_proven(history, experiments)
    return sorted(found, key=lambda item: int(item.invariant[1:]))
