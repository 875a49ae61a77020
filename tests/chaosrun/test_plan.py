"""What a run would do, and what is refused, by cases."""

from dataclasses import replace
from typing import Any

import pytest

from workstation.chaos.experiments import BY_NAME, EXPERIMENTS
from workstation.chaos.faults.table import FAULTS
from workstation.chaos.plan import Facts, Order, Refused, TenantFact, Why, plan
from workstation.chaos.record import is_own_tenant
from workstation.chaos.report import plan_document
from workstation.cli.chaos import show

RUN = "chaos-0a1b2c"
RED = TenantFact("uid-red", ready=True)
FACTS = Facts(
    ("standard",), {"red": RED, "ill": replace(RED, ready=False), "left": replace(RED, run="chaos-ffffff")}, "bulkhead:1"
)
ORDER = Order(("webhook-fails",))


def test_a_plan_names_all_that_will_be_touched() -> None:
    found = plan_document(plan(Order(("webhook-fails", "plane-deleted", "webhook-fails")), FACTS, RUN))
    assert [experiment["name"] for experiment in found.pop("experiments")] == ["webhook-fails", "plane-deleted"]
    assert found == {
        "run": RUN,
        "target": f"{RUN}-1",
        "targetIsCreated": True,
        "creates": [f"{RUN}-1", f"{RUN}-2", f"{RUN}-3"],
        "namespaceInEach": f"bulkhead-{RUN}",
        "class": "standard",
        "image": "bulkhead:1",
        "baselineSeconds": 30.0,
        "faultSeconds": 20.0,
        "requestSeconds": 5.0,
        "estimatedSeconds": 190,
    }


def test_a_plan_for_people_names_what_is_made_in_a_tenant_of_other_people(capsys: pytest.CaptureFixture[str]) -> None:
    """The experiment's own line does not: `plane-deleted` alone makes a namespace there, too."""
    show.plan(plan(Order(("plane-deleted",), target="red", confirmed="red"), FACTS, RUN))
    shown = capsys.readouterr().out
    for text in ("breaks tenant red, WHICH IT DOES NOT CREATE", f"creates namespace bulkhead-{RUN} in each", "a certificate"):
        assert text in shown


def test_its_own_tenants_are_called_as_what_undoes_it_wants_them_to_be() -> None:
    made = plan(replace(ORDER, tenants=10), FACTS, RUN)
    assert len(made.creates) == 10
    assert all(is_own_tenant(RUN, name) for name in made.creates)


def test_a_target_with_users_is_broken_only_if_it_was_named_twice() -> None:
    made = plan(replace(ORDER, target="red", confirmed="red"), FACTS, RUN)
    assert (made.target, made.target_uid, made.own_target) == ("red", "uid-red", False)
    assert made.neighbours == made.creates


def test_a_dry_run_needs_no_confirmation() -> None:
    assert plan(replace(ORDER, target="red", acts=False), FACTS, RUN).target == "red"
    with pytest.raises(Refused, match="another tenant"):
        plan(replace(ORDER, target="red", confirmed="rad", acts=False), FACTS, RUN)


REFUSED: dict[str, tuple[dict[str, Any], Facts, str, Why]] = {
    "no experiment": ({"experiments": ()}, FACTS, "no experiment is named", Why.USAGE),
    "an unknown one": ({"experiments": ("x" * 10_000,)}, FACTS, "no experiment is called 'xxx", Why.USAGE),
    "many": ({"experiments": tuple(map(str, range(1000)))}, FACTS, "20 times at most, not 1000 times", Why.USAGE),
    "one tenant": ({"tenants": 1}, FACTS, "--tenants must be between 2 and 10, not 1", Why.USAGE),
    "a million tenants": ({"tenants": 10**6}, FACTS, "--tenants must be between 2 and 10", Why.USAGE),
    "no such target": ({"target": "no", "confirmed": "no"}, FACTS, "tenant no: not found", Why.NOT_FOUND),
    "unconfirmed": ({"target": "red"}, FACTS, "tenant red was not created by this run", Why.USAGE),
    "another confirmed": ({"target": "red", "confirmed": "rad"}, FACTS, "--confirm rad names another tenant", Why.USAGE),
    "ill before": ({"target": "ill", "confirmed": "ill"}, FACTS, "not Ready before any fault", Why.USAGE),
    "of another run": ({"target": "left", "confirmed": "left"}, FACTS, "belongs to run chaos-ffffff", Why.USAGE),
    "own only": (
        {"experiments": ("store-filled",), "target": "red", "confirmed": "red"},
        FACTS,
        "store-filled breaks only a tenant that the run creates itself",
        Why.USAGE,
    ),
    "no such class": ({"class_name": "gold"}, FACTS, "there is no TenantClass gold; there are: standard", Why.NOT_FOUND),
    "several classes": ({}, replace(FACTS, classes=("b", "a")), "there are several TenantClasses: a, b", Why.USAGE),
    "no class": ({}, replace(FACTS, classes=()), "there is no TenantClass", Why.USAGE),
    "no image": ({"experiments": ("cpu-hog",)}, replace(FACTS, image=""), "the controller's image is unknown", Why.USAGE),
    "a name that is taken": ({}, replace(FACTS, tenants={f"{RUN}-2": RED}), f"tenant {RUN}-2 exists already", Why.USAGE),
    "too long": ({"experiments": tuple(BY_NAME), "fault_seconds": 300.0}, FACTS, "minutes, and may take 45", Why.USAGE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_run_is_refused(name: str) -> None:
    change, facts, says, why = REFUSED[name]
    with pytest.raises(Refused) as refused:
        plan(replace(ORDER, **change), facts, RUN)
    assert says in refused.value.cause
    assert refused.value.why is why
    assert refused.value.next_step
    assert len(str(refused.value)) < 300


def test_the_target_gets_a_small_store_only_if_it_will_be_filled() -> None:
    assert plan(Order(("store-filled",)), FACTS, RUN).small_store
    assert not plan(ORDER, FACTS, RUN).small_store


def test_each_experiment_has_one_fault_and_says_what_it_claims_and_touches() -> None:
    assert list(FAULTS) == list(BY_NAME)
    assert len(EXPERIMENTS) >= 8
    for experiment in EXPERIMENTS:
        assert experiment.hypothesis
        assert experiment.touches
        assert 0 < experiment.recover_seconds <= 600


def test_all_experiments_fit_into_one_run() -> None:
    assert plan(Order(tuple(BY_NAME)), FACTS, RUN).experiments == EXPERIMENTS
