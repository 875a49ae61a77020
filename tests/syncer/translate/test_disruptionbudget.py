"""How many pods stay: by the spec or the status, and no more than there are; and for which pods that holds."""

from typing import Any

import pytest

from bulkhead.api import requirements
from bulkhead.api.objects import Obj
from syncer.translate import Reason, Untranslatable
from syncer.translate.kinds import disruptionbudget, drain
from tests.kit import translationsamples as samples


def budget(desired: Any = 6, **spec: Any) -> Obj:
    meta = {"name": "web", "namespace": "team", "uid": "u"}
    status = {"observedGeneration": 1, "desiredHealthy": desired, "expectedPods": 8}
    return {"metadata": meta, "spec": {"selector": {"matchLabels": {"app": "web"}}} | spec, "status": status}


def stays(virtual: Obj, pods: int) -> int:
    found = disruptionbudget.to_host(virtual, samples.VIEW, lambda _selector: pods)["spec"]
    assert "maxUnavailable" not in found
    number: int = found["minAvailable"]
    return number


@pytest.mark.parametrize("said", [0, 1, 5])
def test_a_number_in_the_spec_is_the_number(said: int) -> None:
    assert stays(budget(100_000, minAvailable=said), 5) == said
    plain = budget(minAvailable=said)
    del plain["status"]
    assert disruptionbudget.is_mirrored(plain)


@pytest.mark.parametrize("said", [3, 100_000, 2**31 - 1])
def test_a_number_in_the_spec_keeps_no_more_pods_than_there_are(said: int) -> None:
    assert stays(budget(minAvailable=said), 2) == 2
    assert stays(budget(minAvailable=said), 0) == 0
    assert stays(budget(minAvailable=said, selector=None), 8) == 0


def test_a_number_in_the_spec_has_bounds() -> None:
    assert stays(budget(minAvailable=2**31 - 1), 200_000) == 100_000
    assert stays(budget(minAvailable=-1), 2) == 0


@pytest.mark.parametrize("policy", [None, "IfHealthyBudget", "AlwaysAllow"])
def test_a_pod_that_is_not_healthy_holds_up_no_eviction(policy: str | None) -> None:
    virtual = budget(minAvailable=2) if policy is None else budget(minAvailable=2, unhealthyPodEvictionPolicy=policy)
    made = disruptionbudget.to_host(virtual, samples.VIEW)["spec"]
    assert made["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


@pytest.mark.parametrize(
    "selector", [{}, {"matchLabels": {"app": "web"}}, {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
)
def test_pods_of_a_drain_past_its_deadline_are_left_out(selector: Obj) -> None:
    asked: list[Obj] = []
    made = disruptionbudget.to_host(
        budget(minAvailable=2, selector=selector), samples.VIEW, lambda found: asked.append(found) or 2
    )
    left_out = {"key": drain.DRAINED, "operator": "DoesNotExist"}
    assert left_out in made["spec"]["selector"]["matchExpressions"]
    # They are not counted either.
    assert asked == [made["spec"]["selector"]]


@pytest.mark.parametrize("spec", [{"maxUnavailable": "25%"}, {"maxUnavailable": 2}, {"minAvailable": "75%"}])
def test_a_status_that_a_tenant_wrote_keeps_no_more_pods_than_there_are(spec: Obj) -> None:
    assert stays(budget(6, **spec), 8) == 6
    assert stays(budget(100_000, **spec), 8) == 8
    assert stays(budget(-5, **spec), 8) == 0
    assert stays(budget(6, **spec), 0) == 0
    assert stays(budget(6, selector=None, **spec), 8) == 0


@pytest.mark.parametrize("status", [None, {}, {"observedGeneration": 1, "desiredHealthy": "6"}, {"desiredHealthy": 3}])
def test_a_share_waits_until_the_plane_has_counted(status: Any) -> None:
    assert not disruptionbudget.is_mirrored(budget(maxUnavailable="25%") | {"status": status})


@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {f"k{number}": "" for number in range(101)}},
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"] * 100}]},
        {"matchExpressions": [{"key": "a", "operator": "Exists"}] * 101},
        {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["x"] * 24}] * 4},
    ],
    ids=["labels", "values", "expressions", "all together"],
)
def test_a_budget_that_selects_by_very_much_is_refused(selector: Obj) -> None:
    """For each pod that changes, the host's controller manager reads the selectors of all budgets beside it."""
    with pytest.raises(Untranslatable, match="has 101 labels, expressions and values, and 100 are the most") as refused:
        disruptionbudget.to_host(budget(minAvailable=1, selector=selector), samples.VIEW)
    assert (refused.value.reason, refused.value.field) == (Reason.TOO_LARGE, "spec.selector")


def test_a_budget_may_select_by_as_much_as_the_hosts_policy_lets_in() -> None:
    largest = {"matchExpressions": [{"key": "a", "operator": "In", "values": [f"x{number}" for number in range(99)]}]}
    made = disruptionbudget.to_host(budget(minAvailable=1, selector=largest), samples.VIEW)["spec"]["selector"]
    assert requirements.of_selector(made) == requirements.MOST_OF_BUDGET + 3
