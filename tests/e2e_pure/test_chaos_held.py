"""A whole good run holds every invariant; each bad history fails the one it breaks, and so does each blind one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from e2e.chaos import judgement
from e2e.chaos.history import (
    HOST,
    MISSING,
    Act,
    Planted,
    Probe,
    Quiet,
    Read,
    Record,
    Rejected,
    Run,
    Scanned,
    Searched,
    Span,
    Use,
    Write,
    from_line,
    to_line,
)
from tests.e2e_pure.chaosruns import BEGIN, END, QUIET_SECONDS, good_run

Change = Callable[[list[Record]], list[Record]]


def violations(records: list[Record]) -> list[tuple[str, str]]:
    return [(item.invariant, item.text) for item in judgement.judge(records).violations]


def without(kind: type[Any], which: Callable[[Any], bool] = lambda _: True) -> Change:
    return lambda records: [item for item in records if not (isinstance(item, kind) and which(item))]


def changed(kind: type[Any], which: Callable[[Any], bool], **fields: object) -> Change:
    def change(records: list[Record]) -> list[Record]:
        made = [replace(item, **fields) if isinstance(item, kind) and which(item) else item for item in records]  # type: ignore[type-var]
        assert made != records
        return made

    return change


def also(*more: Record) -> Change:
    return lambda records: [*records, *more]


def test_a_good_run_holds_every_invariant_also_after_its_file() -> None:
    assert violations(good_run()) == []
    assert violations([from_line(to_line(record)) for record in good_run()]) == []


def of(tenant: str) -> Callable[[Any], bool]:
    return lambda item: item.tenant == tenant


def late(item: Any) -> bool:
    return bool(item.at > 250)


BAD: dict[str, tuple[str, str, Change]] = {
    "a node with too many GPUs": (
        "I2",
        "node node-1: 9 GPUs",
        changed(Use, lambda use: use.scope == "node" and late(use), used=9),
    ),
    "a tenant over its quota": ("I2", "tenant b: 3 GPUs", changed(Use, lambda use: use.name == "b" and late(use), used=3)),
    "a device in two pods": (
        "I2",
        "device nvidia0: in 2 pods at 255.0: x, y",
        changed(Use, lambda use: use.scope == "device" and use.at == 255, used=2, holders="x, y"),
    ),
    "a quota that is not counted": ("I2", "tenant b: no use of its quota", without(Use, lambda use: use.name == "b")),
    "a count that stops": (
        "I2",
        "no use of its quota was observed from",
        without(Use, lambda use: use.name == "b" and late(use)),
    ),
    "no GPU in use": ("I2", "no node's GPUs in use", without(Use, lambda use: use.scope == "node")),
    "no device seen": ("I2", "no pod with a device", without(Use, lambda use: use.scope == "device")),
    "an acknowledged write that is gone": (
        "I3",
        "was acknowledged or read before",
        changed(Read, lambda read: late(read) and read.tenant == "b", value=MISSING),
    ),
    "an old value": (
        "I3",
        "key key had 1001",
        changed(Read, lambda read: read.tenant == "a" and read.experiment == "frozen", value=1001),
    ),
    "a value that no one wrote": (
        "I3",
        "which was never written",
        changed(Read, lambda read: late(read) and read.tenant == "c", value=999999),
    ),
    "nothing read back": (
        "I3",
        "tenant b: its writes were not read after",
        without(Read, lambda read: read.tenant == "b" and bool(read.experiment)),
    ),
    "nothing written": ("I3", "tenant c: wrote nothing", without(Write, of("c"))),
    "nothing acknowledged in an experiment": (
        "I3",
        "tenant c: no write was acknowledged in the experiment",
        changed(Write, lambda write: write.tenant == "c" and 200 <= write.at < 230, acknowledged=False),
    ),
    "a neighbour's pod that failed": (
        "I4",
        "b/turn: lost",
        changed(Act, lambda act: act.tenant == "b" and act.at == 210, error="b/turn: lost"),
    ),
    "no pod of a neighbour": ("I4", "c: no pod came or went", without(Act, of("c"))),
    "a baseline in which a tenant's pods rest": (
        "I4",
        "tenant c: no pod came or went: the limits are those of a machine at rest",
        without(Act, lambda act: act.tenant == "c" and act.at < BEGIN + 20),
    ),
    "an error of the host": (
        "I5",
        "host: 1 of 150 requests failed",
        changed(Probe, lambda probe: probe.tenant == HOST and probe.at == 210, error="timeout"),
    ),
    "a slow host": (
        "I5",
        "host: p99",
        changed(Probe, lambda probe: probe.tenant == HOST and 210 <= probe.at < 212, seconds=0.9),
    ),
    "a host that is not probed": ("I5", "host: there is no baseline", without(Probe, of(HOST))),
    "others' requests rejected": ("I5", "host: 4 requests of flow schema kubelets", also(Rejected(140, "kubelets", 4))),
    "rejections not counted": ("I5", "rejections by priority and fairness were not observed", without(Rejected)),
    "an object against policy": (
        "I7",
        "tenant b: Pod x: hostNetwork is true",
        changed(Scanned, of("b"), findings=("Pod x: hostNetwork is true",)),
    ),
    "a tenant that was not scanned": ("I7", "tenant b: no host object", without(Scanned, of("b"))),
    "a scan that saw nothing": ("I7", "tenant b: no host object", changed(Scanned, of("b"), objects=0)),
    "a scan without the host's verdict": ("I7", "judged 3 of 12", changed(Scanned, of("b"), judged=3)),
    "a hot loop": (
        "I9",
        "PATCH pods/status",
        changed(Quiet, lambda quiet: quiet.experiment == "frozen", writes=("9 x PATCH pods/status",)),
    ),
    "no quiet window": ("I9", "no quiet window was observed", without(Quiet, lambda quiet: quiet.experiment == "frozen")),
    "a short window": (
        "I9",
        "quiet was observed for 2 s",
        changed(Quiet, lambda quiet: quiet.experiment == "frozen", seconds=2.0),
    ),
    "quiet at last": (
        "I9",
        "quiet only after 500 s",
        changed(Quiet, lambda quiet: quiet.experiment == "frozen", converged=500.0),
    ),
    "a secret in a log": (
        "I10",
        "a secret of tenant b is in log of the controller",
        changed(Searched, lambda item: item.owner == HOST, leaked=("b",)),
    ),
    "a secret in a neighbour's log": (
        "I10",
        "a secret of tenant c is in log of a",
        changed(Searched, lambda item: item.owner == "a", leaked=("c",)),
    ),
    "no canary": ("I10", "tenant b: no canary", without(Planted, of("b"))),
    "a search that finds nothing": (
        "I10",
        "did not find its control",
        changed(Searched, lambda item: item.owner == "a", control=False),
    ),
    "a search without a control": (
        "I10",
        "tenant a: the search did not find its own control",
        changed(Searched, lambda item: item.owner == "a", control=None),
    ),
    "a tenant that was not searched": ("I10", "tenant a: none of its texts", without(Searched, lambda item: item.owner == "a")),
    "a host that was not searched": (
        "I10",
        "host: none of its texts",
        changed(Searched, lambda item: item.owner == HOST, bytes=0),
    ),
}


@pytest.mark.parametrize(("invariant", "text", "change"), BAD.values(), ids=BAD.keys())
def test_a_bad_history_fails(invariant: str, text: str, change: Change) -> None:
    found = violations(change(good_run()))
    assert found
    assert {name for name, _ in found} == {invariant}
    assert any(text in message for _, message in found)


def test_the_target_may_lose_what_its_experiment_says() -> None:
    gone = changed(Read, lambda read: read.tenant == "a" and read.at > 200, value=MISSING)(good_run())
    assert violations(gone)
    excused = changed(Span, lambda span: span.experiment == "frozen", may_lose=True)(gone)
    # What was acknowledged afterwards has to be there.
    assert {text.split(",")[0] for _, text in violations(excused)} == {
        f"tenant a: key key had nothing at {at}.0" for at in (233, *range(232, int(END), 5))
    }


def test_a_loss_of_one_tenant_excuses_no_other() -> None:
    gone = changed(Read, lambda read: read.tenant == "b" and read.at > 200, value=MISSING)(good_run())
    assert violations(changed(Span, lambda span: span.experiment == "frozen", may_lose=True)(gone))


def test_counters_that_begin_again_are_not_rejections() -> None:
    seen = [Rejected(at, "kubelets", count) for at, count in ((BEGIN - 1, 7), (140, 7), (145, 0), (210, 0))]
    assert violations([*good_run(), *seen]) == []


def test_rejections_of_the_target_itself_are_wanted() -> None:
    assert violations([*good_run(), Rejected(140, "bulkhead-syncer-a", 4)]) == []


def test_a_fault_of_the_host_excuses_the_host_but_not_the_tenants() -> None:
    on_host = changed(Span, lambda span: span.experiment == "killed", target=HOST)
    down = changed(Probe, lambda probe: probe.tenant == HOST and 130 <= probe.at < 140, error="down")
    up = changed(Probe, lambda probe: probe.tenant == "a", error="", seconds=0.003)
    assert violations(on_host(up(down(good_run())))) == []
    tenant_down = changed(Probe, lambda probe: probe.tenant == "b" and probe.at == 132, error="down")
    assert {name for name, _ in violations(tenant_down(on_host(up(good_run()))))} == {"I4"}


def test_a_history_without_a_run_is_not_judged() -> None:
    with pytest.raises(judgement.NoRunError, match="ended before its baseline"):
        judgement.judge(without(Run)(good_run()))


def test_a_window_without_length_proves_nothing() -> None:
    assert QUIET_SECONDS > 0
    found = violations(changed(Run, lambda _: True, quiet_seconds=0.0)(good_run()))
    assert found == [("I9", "the quiet window has no length")]
