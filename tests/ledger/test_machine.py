"""The ledger under everything that may happen; and with a rule taken out, which has to be noticed."""

import gc
import os

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.ledger.machine import Machine
from tests.ledger.mutations import MUTATIONS, QUICK, Mutation


def run(examples: int, number: int = 1) -> None:
    # As in tests/simulation/test_machine.py: a collection in the middle of it breaks the parser of some Python 3.11.
    gc.collect()
    run_state_machine_as_test(
        seed(number)(Machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            database=None,
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
    """Histories that follow from SIMULATION_SEED: as many as SIMULATION_EXAMPLES, or 2000."""
    run(int(os.environ.get("SIMULATION_EXAMPLES", "2000")), int(os.environ.get("SIMULATION_SEED", "1000")))


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
