"""I3 and I9: no acknowledged write of a tenant is lost, and the platform stops writing when there is nothing to do. Pure."""

from bisect import bisect_left
from collections.abc import Sequence

from e2e.chaos.history import MISSING, History, Read, Write, hits
from e2e.chaos.history import Quiet as Window
from e2e.chaos.invariants.violation import Violation, experiment_at

LONGEST_CONVERGENCE = 120.0  # seconds from the target's recovery until nothing writes for it


def acknowledged_kept(history: History) -> list[Violation]:
    """I3: each read of a key returns at least the last value that was acknowledged before, and no value that was not written.

    A key has one writer, whose values grow. All keys are read after each experiment. In one that says so, the target may lose.
    """
    found = []
    for tenant in history.tenants:
        writes = [item for item in history.all(Write) if item.tenant == tenant]
        reads = [item for item in history.all(Read) if item.tenant == tenant]
        found += _unread(history, tenant, writes, reads)
        for key in sorted({item.key for item in writes}):
            own = [item for item in writes if item.key == key]
            found += _lost(history, tenant, own, [item for item in reads if item.key == key])
    return found


def becomes_quiet(history: History, window: float) -> list[Violation]:
    """I9: after each experiment the platform converges for the idle target, and then writes nothing for `window` seconds."""
    seen = {item.experiment: item for item in history.all(Window)}
    found = [] if window > 0 else [Violation("I9", "run", "the quiet window has no length")]
    for span in history.spans:
        quiet = seen.get(span.experiment)
        if quiet is None:
            found.append(Violation("I9", span.experiment, "no quiet window was observed"))
            continue
        subject = f"tenant {quiet.tenant}"
        if quiet.writes:
            text = f"{subject}: written in a window of {quiet.seconds:.0f} s without work: {', '.join(quiet.writes[:5])}"
            found.append(Violation("I9", span.experiment, text))
        elif quiet.seconds < window:
            text = f"{subject}: quiet was observed for {quiet.seconds:.0f} s, {window:.0f} s are wanted"
            found.append(Violation("I9", span.experiment, text))
        elif quiet.converged > LONGEST_CONVERGENCE:
            text = f"{subject}: quiet only after {quiet.converged:.0f} s"
            found.append(Violation("I9", span.experiment, text))
    return found


def _unread(history: History, tenant: str, writes: Sequence[Write], reads: Sequence[Read]) -> list[Violation]:
    """Experiments after which nothing was read, or during which no neighbour's write was acknowledged."""
    found = [] if any(item.acknowledged for item in writes) else [Violation("I3", "writer", f"tenant {tenant}: wrote nothing")]
    read = {item.experiment for item in reads}
    for span in history.spans:
        if span.experiment not in read:
            text = f"tenant {tenant}: its writes were not read after the experiment"
            found.append(Violation("I3", span.experiment, text))
        written = any(item.acknowledged and span.begin <= item.at < span.end for item in writes)
        if not written and not hits(span, tenant):
            text = f"tenant {tenant}: no write was acknowledged in the experiment: not observed"
            found.append(Violation("I3", span.experiment, text))
    return found


def _lost(history: History, tenant: str, writes: Sequence[Write], reads: Sequence[Read]) -> list[Violation]:
    """Reads of one key that no order of its writes explains. Its one writer's values grow, so the last one counts."""
    found = []
    losses = [span for span in history.spans if span.target == tenant and span.may_lose]
    acknowledged = [item for item in writes if item.acknowledged]
    answered = [item.end for item in acknowledged]
    tried = {item.value for item in writes}
    seen, seen_at = MISSING, 0.0  # what was read once has happened: a later read may not return an older value
    for read in reads:
        lost = max((span.end for span in losses if span.begin <= read.at), default=0.0)
        excused = any(span.begin <= read.at < span.end for span in losses)
        last = bisect_left(answered, read.at)
        kept = acknowledged[last - 1] if last else None
        least = max(kept.value if kept and kept.at >= lost else MISSING, seen if seen_at >= lost else MISSING)
        where = read.experiment or experiment_at(history, read.at)
        if read.value < least and not excused:
            shown = "nothing" if read.value == MISSING else str(read.value)
            text = f"tenant {tenant}: key {read.key} had {shown} at {read.at:.1f}, {least} was acknowledged or read before"
            found.append(Violation("I3", where, text))
        elif read.value != MISSING and read.value not in tried:
            text = f"tenant {tenant}: key {read.key} had {read.value} at {read.at:.1f}, which was never written"
            found.append(Violation("I3", where, text))
        if read.value > seen or seen_at < lost:
            seen, seen_at = read.value, read.at
    return found
