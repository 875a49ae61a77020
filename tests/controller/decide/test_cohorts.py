"""What tenants of a cohort are given, how much they may ever hold, and which of their pods wait at the gate."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import ledger
from bulkhead.api.quantity import Amount
from bulkhead.ledger.given import tenant_of
from bulkhead.ledger.model import Share, Tenant
from controller import allotment, cohorts
from controller.decide.held import hold
from controller.decide.plan import plan
from controller.existing import by_slot
from controller.plane.policyfacts import policy_facts
from controller.plane.quota import resource_quotas
from controller.plane.render import render
from controller.plane.spec import PlaneSpec
from controller.plane.syncer import settings
from controller.refusal import Refusal
from tests.kit.tenantsamples import SLICE, case, material, plane_for, tenant, tenant_class

GPU = "nvidia.com/gpu"
H2 = {"name": "h", "nominal": 2}
Spec = dict[str, Any]
OFFER: Spec = {"quota": {"cohorts": ["research"], "resources": {GPU: {"maxNominal": 64}}}}


def asking(resources: Spec, cohort: str | None = "research", **quota: Any) -> Spec:
    return {"quota": {"resources": resources} | ({"cohort": cohort} if cohort else {}) | quota}


def gpus(nominal: int, **said: Any) -> Spec:
    return asking({GPU: {"nominal": nominal} | said})


def offering(**resources: Any) -> Spec:
    return {"gpuResources": [GPU], "quota": {"cohorts": ["research"], "resources": resources}}


def given_to(asked: Spec, offer: Spec | None = None, name: str = "team-a") -> Tenant:
    found = cohorts.given(name, asked, {"gpuResources": [GPU]} | (offer or OFFER))
    assert found is not None
    return found


def mate(name: str, nominal: int, lending: int | None = None, cohort: str = "research", flavor: str = "") -> Tenant:
    return Tenant(name, cohort, shares={(flavor, GPU): Share(nominal, None, lending)})


def ceilings(asked: Spec, *others: Tenant, offer: Spec | None = None) -> dict[str, str]:
    bounds = {"gpuResources": [GPU]} | (offer or OFFER)
    limits = allotment.limits(asked, bounds)
    return {name: str(most) for name, most in cohorts.ceilings(given_to(asked, bounds), others, bounds, limits).items()}


# What a Tenant asks, what its class says of each resource, and the shares that follow.
SHARES: dict[str, tuple[Spec, Spec, dict[tuple[str, str], Share]]] = {
    "devices without a limit": (gpus(8), {}, {("", GPU): Share(8, None, None)}),
    "devices with limits": (gpus(8, borrowingLimit=4, lendingLimit=2), {}, {("", GPU): Share(8, 4, 2)}),
    "nothing borrowed, nothing lent": (gpus(8, borrowingLimit=0, lendingLimit=0), {}, {("", GPU): Share(8, 0, 0)}),
    "no devices of its own": (asking({}), {}, {("", GPU): Share(0, None, None)}),
    "the class's default": (asking({}), {GPU: {"default": 4}}, {("", GPU): Share(4, None, None)}),
    "as much as the class lets": (gpus(8), {GPU: {"maxBorrowing": 3}}, {("", GPU): Share(8, 3, None)}),
    "less than the class lets": (gpus(8, borrowingLimit=2), {GPU: {"maxBorrowing": 3}}, {("", GPU): Share(8, 2, None)}),
    "flavors": (
        asking({GPU: {"nominal": 8, "flavors": [{"name": "h", "nominal": 6, "lendingLimit": 1}, {"name": "a", "nominal": 2}]}}),
        {},
        {("h", GPU): Share(6, None, 1), ("a", GPU): Share(2, None, None)},
    ),
    "cpu that is lent": (
        asking({GPU: {"nominal": 1}, "cpu": {"nominal": "1.5", "lendingLimit": "500m"}}),
        {},
        {("", GPU): Share(1, None, None), ("", "cpu"): Share(1500, 0, 500)},
    ),
    "cpu that is its own": (asking({GPU: {"nominal": 1}, "cpu": {"nominal": 8}}), {}, {("", GPU): Share(1, None, None)}),
    "memory that the class lets borrow": (
        asking({GPU: {"nominal": 1}, "memory": {"nominal": "1Ki"}}),
        {"memory": {"maxBorrowing": "1Ki"}},
        {("", GPU): Share(1, None, None), ("", "memory"): Share(1024, 1024, 0)},
    ),
    "cpu without a ceiling": (asking({GPU: {"nominal": 1}}), {"cpu": {"maxBorrowing": 4}}, {("", GPU): Share(1, None, None)}),
}


@pytest.mark.parametrize("name", SHARES)
def test_what_a_tenant_is_given(name: str) -> None:
    asked, resources, shares = SHARES[name]
    found = given_to(asked, offering(**resources))
    assert found.shares == shares
    assert set(cohorts.gated_resources(asked, offering(**resources))) == {resource for _, resource in shares}


def test_a_tenant_without_cohort_and_gangs_does_not_need_the_ledger() -> None:
    asked = {"quota": {"resources": {GPU: {"nominal": 8}}}}
    assert cohorts.given("team-a", asked, OFFER) is None
    alone = cohorts.given("team-a", asked, {"scheduling": {"gangs": True}})
    assert alone == Tenant("team-a", shares={("", GPU): Share(8, 0, 0)})
    assert cohorts.gated_resources(asked, {"scheduling": {"gangs": True}}) == ()


def test_weight_and_preference_are_the_tenants() -> None:
    flavors = [{"name": "h", "nominal": 4}, {"name": "a", "nominal": 4}]
    found = given_to(asking({GPU: {"nominal": 8, "flavors": flavors}}, weight=3))
    assert (found.weight, found.prefers) == (3, {GPU: ("h", "a")})


@pytest.mark.parametrize(
    ("asked", "others", "found"),
    [
        (gpus(8), [], {}),
        (gpus(8), [mate("b", 16)], {GPU: "24"}),
        (gpus(8), [mate("b", 16), mate("c", 4, lending=1)], {GPU: "25"}),
        (gpus(8, borrowingLimit=5), [mate("b", 16)], {GPU: "13"}),
        (gpus(8, borrowingLimit=0), [mate("b", 16)], {}),
        (gpus(8), [mate("b", 16, lending=0)], {}),
        (gpus(8), [mate("b", 16, cohort="others"), mate("c", 16, cohort="")], {}),
        # Its own amount, from an earlier note, is not what others lend.
        (gpus(8), [mate("team-a", 16)], {}),
        # Kinds of nodes are lent each for itself.
        (gpus(8), [mate("b", 16, flavor="h")], {}),
        (asking({GPU: {"nominal": 2, "flavors": [H2]}}), [mate("b", 4), mate("c", 3, flavor="h")], {GPU: "5"}),
    ],
)  # fmt: skip
def test_the_ceiling_is_what_it_has_and_what_others_lend(asked: Spec, others: list[Tenant], found: dict[str, str]) -> None:
    assert ceilings(asked, *others) == found


def test_all_flavors_together_borrow_no_more_than_the_class_lets() -> None:
    flavors = [{"name": "h", "nominal": 2}, {"name": "a", "nominal": 2}]
    asked = asking({GPU: {"nominal": 4, "flavors": flavors}})
    lending = (mate("b", 8, flavor="h"), mate("c", 8, flavor="a"))
    assert ceilings(asked, *lending) == {GPU: "20"}
    assert ceilings(asked, *lending, offer=offering(**{GPU: {"maxBorrowing": 3}})) == {GPU: "7"}


def test_a_ceiling_is_written_as_the_quota_is() -> None:
    asked = asking({"memory": {"nominal": "1Gi", "borrowingLimit": "1Gi"}, "cpu": {"nominal": 1, "borrowingLimit": "500m"}})
    other = Tenant("b", "research", shares={("", "memory"): Share(1 << 40), ("", "cpu"): Share(64_000)})
    assert ceilings(asked, other) == {"memory": "2Gi", "cpu": "1500m"}


@st.composite
def members(draw: st.DrawFn) -> Spec:
    nominal = draw(st.integers(0, 20))
    limits = {"borrowingLimit": draw(st.none() | st.integers(0, 20)), "lendingLimit": draw(st.none() | st.integers(0, nominal))}
    return gpus(nominal, **{key: limit for key, limit in limits.items() if limit is not None})


@given(st.lists(members(), min_size=1, max_size=5))
def test_no_ceiling_is_more_than_the_cohort_has_and_none_less_than_nominal(made: list[Spec]) -> None:
    notes = [given_to(asked, name=f"t{number}") for number, asked in enumerate(made)]
    said = [asked["quota"]["resources"][GPU] for asked in made]
    for number, (asked, own) in enumerate(zip(made, said, strict=True)):
        others = [note for note in notes if note.name != f"t{number}"]
        most = int(ceilings(asked, *others).get(GPU, own["nominal"]))
        assert own["nominal"] <= most <= sum(resource["nominal"] for resource in said)
        assert most <= own["nominal"] + own.get("borrowingLimit", most)


def hard(spec: PlaneSpec) -> dict[str, str]:
    return {name: value for quota in resource_quotas(spec) for name, value in quota["spec"]["hard"].items()}


def noted(spec: PlaneSpec) -> Tenant:
    found = tenant_of(next(quota for quota in resource_quotas(spec) if quota["metadata"]["name"] == "tenant-quota"))
    assert found is not None
    return found


def in_cohort(asked: Spec, offer: Spec | None = None, *others: Tenant, **more: Any) -> PlaneSpec:
    return plane_for(tenant(**asked), tenant_class(**(offer or OFFER)), given=others, **more)


def test_the_quota_is_the_ceiling_and_the_syncers_limits_are_its_own() -> None:
    spec = in_cohort(gpus(8), None, mate("b", 16))
    assert hard(spec)["requests.nvidia.com/gpu"] == "24"
    assert noted(spec) == Tenant("team-a", "research", shares={("", GPU): Share(8, None, None)})
    said = settings(spec)
    assert (said["limits"], said["gatedResources"]) == ({GPU: 8}, [GPU])
    assert "gatedGangs" not in said
    # Nothing that others do starts its syncer again.
    assert settings(in_cohort(gpus(8), None, mate("b", 2), mate("c", 3))) == said
    facts = policy_facts(spec)
    assert (facts[ledger.GATED_RESOURCES], facts.get(ledger.GATED_GANGS)) == (GPU, None)


def test_devices_that_stand_for_what_is_lent_are_noted() -> None:
    quota = {"gpu.example.com": {"resource": GPU}, "imex.example.com": {"devices": 4}}
    offer = OFFER | {
        "allowedDeviceClasses": ["gpu.example.com", "imex.example.com", "any.example.com"],
        "deviceClassQuota": quota,
    }
    assert given_to(gpus(4), offer).devices == {"gpu.example.com": GPU}
    assert given_to(gpus(4)).devices == {}


def test_claims_for_devices_borrow_nothing() -> None:
    devices = {"allowedDeviceClasses": ["gpu"], "deviceClassQuota": {"gpu": {"resource": GPU}}}
    spec = in_cohort(gpus(8), OFFER | devices, mate("b", 16))
    assert (hard(spec)["requests.nvidia.com/gpu"], hard(spec)["gpu.deviceclass.resource.k8s.io/devices"]) == ("24", "8")


def test_gangs_alone_gate_gangs_alone() -> None:
    spec = in_cohort(asking({GPU: {"nominal": 8}}, None), {"scheduling": {"gangs": True}}, mate("b", 16))
    assert hard(spec)["requests.nvidia.com/gpu"] == "8"
    assert noted(spec) == Tenant("team-a", shares={("", GPU): Share(8, 0, 0)})
    said, facts = settings(spec), policy_facts(spec)
    assert ("gatedResources" in said, said["gatedGangs"]) == (False, True)
    assert (ledger.GATED_RESOURCES in facts, facts[ledger.GATED_GANGS]) == (False, "true")


def test_a_tenant_that_leaves_a_cohort_leaves_nothing_at_the_gate() -> None:
    before = in_cohort(gpus(8), None, mate("b", 16))
    everything = by_slot(render(before, material(before)).everything())
    after = in_cohort(asking({GPU: {"nominal": 8}}, None), None, mate("b", 16), existing=everything)
    assert hard(after)["requests.nvidia.com/gpu"] == "8"
    assert noted(after) == Tenant("team-a", shares={("", GPU): Share(8, 0, 0)})
    assert not {ledger.GATED_RESOURCES, ledger.GATED_GANGS} & policy_facts(after).keys()
    # The right to admit what waits there stays, in a tenant that had it.
    gone = {deletion.slot.name for deletion in plan(after, material(after), everything).deletions}
    assert "ledger" not in gone
    assert not in_cohort(asking({GPU: {"nominal": 8}}, None)).ledger.admits


def held(asked: Spec, offer: Spec, before: PlaneSpec, *others: Tenant) -> PlaneSpec:
    existing = by_slot(render(before, material(before)).everything())
    refused = case(tenant(**asked), tenant_class(**offer), existing=existing, given=others)
    return replace(hold(refused, Refusal(reason="OutOfBounds", message="")).plane, service_slice=SLICE)  # type: ignore[arg-type]


def test_a_refused_amount_stays_what_it_was_and_does_not_grow_by_what_others_lend() -> None:
    """The host's quota holds the ceiling: read as nominal, it would grow with each reconcile."""
    others = (mate("b", 16),)
    spec = in_cohort(gpus(32), None, *others)
    tight = offering(**{GPU: {"maxNominal": 8}})
    for _ in range(3):
        spec = held(gpus(32), tight, spec, *others)
        assert (hard(spec)["requests.nvidia.com/gpu"], dict(spec.quota.limits)[GPU]) == ("48", Amount.of(32))
        assert noted(spec) == Tenant("team-a", "research", shares={("", GPU): Share(32, None, None)})
    # Another amount that is refused too is not taken for the one that runs.
    assert hard(held(gpus(64), tight, spec, *others))["requests.nvidia.com/gpu"] == "48"


def test_refused_amounts_keep_their_flavors() -> None:
    flavors = [{"name": "h", "nominal": 24}, {"name": "a", "nominal": 8}]
    asked = asking({GPU: {"nominal": 32, "flavors": flavors}})
    listed = {"spec": {"flavors": [{"name": flavor["name"], "resource": GPU, "nodeLabels": {"x": "y"}} for flavor in flavors]}}
    before = in_cohort(asked, None, mate("b", 4, flavor="h"), cohort=listed)
    spec = held(asked, offering(**{GPU: {"maxNominal": 8}}), before, mate("b", 4, flavor="h"))
    assert noted(spec).shares == {("h", GPU): Share(24, None, None), ("a", GPU): Share(8, None, None)}
    assert hard(spec)["requests.nvidia.com/gpu"] == "36"


def test_a_cohort_that_the_class_no_longer_lists_lends_nothing_more() -> None:
    before = in_cohort(gpus(8), None, mate("b", 16))
    spec = held(gpus(8), {"quota": {"resources": {GPU: {"maxNominal": 64}}}}, before, mate("b", 16))
    assert hard(spec)["requests.nvidia.com/gpu"] == "8"
    assert noted(spec).cohort == ""
    assert spec.ledger.gated_resources == ()


def test_borrowing_that_is_refused_is_as_much_as_the_class_lets() -> None:
    before = in_cohort(gpus(8, borrowingLimit=12), None, mate("b", 16))
    spec = held(gpus(8, borrowingLimit=12), offering(**{GPU: {"maxBorrowing": 4}}), before, mate("b", 16))
    assert hard(spec)["requests.nvidia.com/gpu"] == "12"
    flavors = [{"name": "h", "nominal": 4, "borrowingLimit": 3}, {"name": "a", "nominal": 4, "borrowingLimit": 3}]
    asked = asking({GPU: {"nominal": 8, "flavors": flavors}})
    spec = held(asked, offering(**{GPU: {"maxBorrowing": 4}}), before)
    assert noted(spec).shares == {("h", GPU): Share(4, 3, None), ("a", GPU): Share(4, 1, None)}
