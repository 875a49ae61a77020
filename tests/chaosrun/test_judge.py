"""Verdicts: a healthy history holds, and each fault in it is found, alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from workstation.chaos.judge import (
    HOST,
    Figures,
    Limits,
    Pods,
    Proof,
    Sample,
    Seen,
    State,
    figures,
    judge,
    percentile,
    started,
    unfit,
)

GOOD = Figures(200, 0, 0.01, 0.04)
PODS = Pods(1, frozenset({"a", "b"}))
SHOWN = Proof(True, "seen")
HEALTHY = Seen(
    proofs=(SHOWN,),
    before={"b": GOOD, "c": GOOD, HOST: GOOD},
    during={"b": GOOD, "c": replace(GOOD, p99=0.1), HOST: GOOD},
    pods_before={"a": PODS, "b": PODS, "c": PODS, "other": PODS, HOST: PODS},
    pods_after={"a": Pods(9, frozenset({"z"})), "b": PODS, "c": PODS, "other": PODS, HOST: PODS},
    excused="a",
    missing="",
    recovered_after=3.0,
)
SUBJECTS = ("b", "c", HOST)


def test_a_healthy_history_holds_and_the_target_may_restart() -> None:
    found = judge(HEALTHY, SUBJECTS, Limits())
    assert (found.state, found.violations) == (State.HELD, ())
    # 1.25 x 40 ms + 50 ms is the limit, and the limit itself holds.
    assert [round(subject.limit, 3) for subject in found.subjects] == [0.1, 0.1, 0.1]


def during(**change: object) -> Callable[[Seen], Seen]:
    return lambda seen: replace(seen, during={**seen.during, "b": replace(GOOD, **change)})  # type: ignore[arg-type]


FAULTS: dict[str, tuple[Callable[[Seen], Seen], str]] = {
    "slow": (during(p99=0.1001), "b: p99 100 ms, which must be at most 100 ms (40 ms before)"),
    "an error": (during(errors=1, first_error="503"), "b: 1 of 200 requests failed: 503"),
    "few requests": (during(requests=19), "b: only 19 requests during the fault"),
    "blind": (lambda seen: replace(seen, during={"c": GOOD, HOST: GOOD}), "b: only 0 requests during the fault"),
    "blind before": (lambda seen: replace(seen, before={"c": GOOD, HOST: GOOD}), "b: only 0 requests before the fault"),
    "ill before": (
        lambda seen: replace(seen, before={**seen.before, "b": replace(GOOD, errors=2, first_error="x")}),
        "b: 2 requests failed before any fault: x",
    ),
    "a container restarted": (
        lambda seen: replace(seen, pods_after={**seen.pods_after, "other": replace(PODS, restarts=2)}),
        "other: 1 of its own pods or containers started again",
    ),
    "a pod replaced": (
        lambda seen: replace(seen, pods_after={**seen.pods_after, HOST: replace(PODS, uids=frozenset({"a", "n"}))}),
        "host: 1 of its own pods",
    ),
    "not recovered": (lambda seen: replace(seen, missing="no pod"), "the target did not work again in time: no pod"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_a_violation(name: str) -> None:
    change, says = FAULTS[name]
    found = judge(change(HEALTHY), SUBJECTS, Limits())
    assert found.state is State.VIOLATED
    assert any(violation.startswith(says) for violation in found.violations), found.violations


@pytest.mark.parametrize("proofs", [(), (SHOWN, Proof(False, "no"))])
def test_without_proof_nothing_has_held(proofs: tuple[Proof, ...]) -> None:
    assert judge(replace(HEALTHY, proofs=proofs), SUBJECTS, Limits()).state is State.UNPROVEN


def test_a_baseline_with_an_error_or_without_requests_is_none() -> None:
    assert unfit(HEALTHY.before, SUBJECTS) == ""
    ill = {**HEALTHY.before, "c": replace(GOOD, errors=1, first_error="no answer")}
    assert unfit(ill, SUBJECTS) == "c: 1 of 200 requests failed: no answer"
    assert unfit({**HEALTHY.before, "c": replace(GOOD, requests=19)}, SUBJECTS) == "c: only 19 requests were measured"
    assert unfit({}, SUBJECTS) == "b: only 0 requests were measured"


def test_a_tenant_that_came_or_went_meanwhile_is_not_judged_by_its_pods() -> None:
    assert started(None, PODS) == started(PODS, None) == 0


def test_figures_are_of_their_phase_and_percentiles_were_measured() -> None:
    samples = [Sample(float(at), "b", at / 100, "no" if at == 5 else "") for at in range(10)]
    found = figures(samples, 2, 6)["b"]
    assert (found.requests, found.errors, found.first_error) == (5, 1, "no")
    assert (found.p50, found.p99) == (0.03, 0.06)
    assert percentile([], 99) == 0
    assert percentile([3, 1, 2], 50) == 2
