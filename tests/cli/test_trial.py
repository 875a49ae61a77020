"""`bulkhead quota try`: which part of a changed quota is accepted, and what it prints if the class would not allow it."""

import pytest

from bulkhead.ledger.model import Share, Tenant
from workstation.cli.failures import CliError
from workstation.cli.quotas.trial import beyond, changed
from workstation.cli.values import each_once

GPU = "nvidia.com/gpu"
PLAIN = Tenant("red", "c", shares={("", GPU): Share(8, None, 6), ("", "cpu"): Share(64_000, 0, 0)})
KINDS = Tenant("red", "c", shares={("h100", GPU): Share(8), ("a100", GPU): Share(16)})


def test_only_nominal_changes_and_no_tenant_lends_more_than_it_has() -> None:
    assert changed(PLAIN, {GPU: "4", "cpu": "1500m"}) == {
        ("", GPU): Share(4, None, 4),
        ("", "cpu"): Share(1500, 0, 0),
    }
    assert changed(PLAIN, {GPU: "1k"})["", GPU] == Share(1000, None, 6)
    assert changed(KINDS, {f"{GPU}@a100": "0"}) == {("a100", GPU): Share(0)}


@pytest.mark.parametrize(
    ("tenant", "name", "said"),
    [
        (KINDS, GPU, f"name one: {GPU}@a100, {GPU}@h100"),
        (KINDS, f"{GPU}@b200", f"name one: {GPU}@a100, {GPU}@h100"),
        (PLAIN, "memory", f"the ledger counts for it: cpu, {GPU}"),
        (Tenant("red"), GPU, "the ledger counts nothing for it"),
    ],
)
def test_what_the_ledger_does_not_count_is_refused_with_what_it_does(tenant: Tenant, name: str, said: str) -> None:
    with pytest.raises(CliError) as caught:
        changed(tenant, {name: "1"})
    assert caught.value.next_step == said


def test_a_flavor_of_a_tenant_that_has_none_is_told_from_a_resource_of_one_that_has() -> None:
    with pytest.raises(CliError, match="has a quota for all flavors together, not for each one") as caught:
        changed(PLAIN, {f"{GPU}@h100": "1"})
    assert caught.value.next_step == f"name one: {GPU}"
    with pytest.raises(CliError, match="has a quota for each flavor of it"):
        changed(KINDS, {GPU: "1"})


def test_a_resource_is_named_once() -> None:
    assert each_once([(GPU, "4"), ("cpu", "1")]) == {GPU: "4", "cpu": "1"}
    with pytest.raises(CliError, match=f"{GPU} is given twice, as 4 and as 5"):
        each_once([(GPU, "4"), ("cpu", "1"), (GPU, "5")])


def test_a_class_that_would_not_allow_it_is_named() -> None:
    bounds = {GPU: {"maxNominal": 20}, "cpu": {"maxNominal": "100"}, "memory": "odd"}
    assert beyond(PLAIN, changed(PLAIN, {GPU: "20", "cpu": "100"}), bounds) == []
    assert beyond(PLAIN, changed(PLAIN, {"cpu": "101"}), bounds) == [
        "cpu: 101 is more than its class allows (100): it would be refused"
    ]
    (said,) = beyond(KINDS, changed(KINDS, {f"{GPU}@h100": "5"}), bounds)
    assert said == f"{GPU}: 21 is more than its class allows (20): it would be refused"
