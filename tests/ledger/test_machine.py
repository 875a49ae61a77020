"""The ledger under everything that may happen; and with a rule taken out, which has to be noticed."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.ledger.machine import Machine
from tests.ledger.mutations import MUTATIONS, QUICK, Mutation


def run(examples: int, *, repeatable: bool = True) -> None:
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            database=None,
            derandomize=repeatable,
            # A history as it was found is read more quickly than one is made smaller.
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_whatever_happens() -> None:
    run(60)


@pytest.mark.simulation
@pytest.mark.timeout(900)
def test_whatever_else_happens() -> None:
    run(2000, repeatable=False)


@pytest.mark.parametrize("mutation", QUICK, ids=lambda each: each.__name__)
def test_a_missing_rule_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        run(60)


@pytest.mark.simulation
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
def test_each_missing_rule_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises(AssertionError):
        run(2000)
