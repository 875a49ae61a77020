"""What a person reads: durations, one line a suite, what was left out and why. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from ci.catalogue import Suite
from ci.record import Record


def minutes(seconds: float) -> str:
    """A duration."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"


def summary(suites: Iterable[Suite], record: Record, ran: Mapping[str, str] | None = None) -> str:
    """One line a suite: its last result, on which commit, when, how long; `ran` says what this run made of it."""
    rows = [("suite", "last result", "commit", "ended (UTC)", "took", "")]
    for suite in suites:
        note = (ran or {}).get(suite.name, "")
        past = record.get(suite.name)
        if past is None:
            rows.append((suite.name, "never run", "", "", "", note))
            continue
        commit = past.last.commit[:10] + ("+" if past.last.changed else "")
        rows.append((suite.name, past.last.result.value, commit, past.last.ended[:16], minutes(past.last.seconds), note))
    return _columns(rows)


def not_run(suites: Sequence[Suite], reasons: Mapping[str, str]) -> str:
    """What was left out, each with its reason and how to run it."""
    if not suites:
        return "every suite was run"
    return "not run:\n" + _columns([(f"  {suite.name}", reasons[suite.name], " ".join(suite.command)) for suite in suites])


def touched(suites: Iterable[Suite], seconds: Mapping[str, float], record: Record) -> str:
    """The suites that a change touches, which `seconds` names: how each ended last, how long it may take, how to run it."""
    rows = [("suite", "last result", "commit", "takes", "command")]
    for suite in suites:
        if suite.name not in seconds:
            continue
        past = record.get(suite.name)
        ended = ("never run", "") if past is None else (past.last.result.value, past.last.commit[:10])
        rows.append((suite.name, *ended, minutes(seconds[suite.name]), " ".join(suite.command)))
    return _columns(rows) if len(rows) > 1 else "the change touches no suite beyond the fixed part"


def _columns(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows)
