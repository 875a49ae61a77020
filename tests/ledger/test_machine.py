"""The ledger under everything that may happen."""

from hypothesis import HealthCheck, settings

from tests.ledger.machine import Machine

TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
