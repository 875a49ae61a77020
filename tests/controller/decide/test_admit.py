"""The policies of an admission: each refuses something that no policy before it does, and none is left out of the list."""

import inspect
from dataclasses import replace
from typing import Any

import pytest

from bulkhead.api.conditions import Reason
from controller.decide import admit
from controller.decide.case import Admitted, Case
from controller.decide.dedicated import Finding
from controller.plane.placement import Placement
from controller.refusal import Refusal
from controller.settings import Settings
from tests.kit.tenantsamples import WEBHOOK, case, tenant, tenant_class

OWN = {"dedicated": True, "selector": {"pool": "a"}}
FLAVORED = {"nominal": 8, "flavors": [{"name": "h100", "nominal": 8}]}
TAKEN = Finding(refusing=Refusal(Reason.NODES_TAKEN, "another tenant's"))
# Of each policy what it refuses and no policy before it does, and the reason.
REFUSED: dict[str, tuple[Case, Reason]] = {
    "paused": (case(tenant("system", pausedUntil="2999-01-01T00:00:00Z"), None), Reason.PAUSED),
    "name": (case(tenant("system"), None), Reason.INVALID_NAME),
    "known_class": (case(tenant(), None), Reason.UNKNOWN_CLASS),
    "taken_back": (
        case(tenant(), tenant_class(), accepted={"controlPlane": {"replicas": 3}}),
        Reason.IRREVERSIBLE,
    ),
    "version": (case(tenant(kubernetesVersion="v1.99.0"), tenant_class()), Reason.VERSION_UNAVAILABLE),
    "version_step": (
        case(
            tenant(kubernetesVersion="v1.34.1", status={"versions": {"kubernetes": "v1.36.3"}}),
            tenant_class(),
            Settings(kubernetes_versions=("v1.36.3", "v1.34.1")),
        ),
        Reason.VERSION_SKEW,
    ),
    "pod_groups": (
        case(tenant(), tenant_class(scheduling={"podGroups": True}), Settings(kubernetes_versions=("v1.37.0",))),
        Reason.NOT_SUPPORTED,
    ),
    "dropped": (
        case(tenant(isolation={"dropPrivileges": "SlinkyWorkers"}), tenant_class(), Settings(kubernetes_versions=("v1.35.9",))),
        Reason.NOT_SUPPORTED,
    ),
    "bounds": (
        case(tenant(isolation={"podSecurity": "baseline"}), tenant_class(isolation={"podSecurity": "restricted"})),
        Reason.OUT_OF_BOUNDS,
    ),
    "class_amounts": (
        case(tenant(), tenant_class(containerDefaults={"requests": {"nvidia.com/gpu": 1}})),
        Reason.INVALID_CONFIGURATION,
    ),
    "amounts": (case(tenant(quota={"resources": {"nvidia.com/gpu": {"nominal": 65}}}), tenant_class()), Reason.OUT_OF_BOUNDS),
    "replicas": (case(tenant(), tenant_class(controlPlane={"replicas": 2})), Reason.OUT_OF_BOUNDS),
    "placement": (
        case(
            tenant(),
            tenant_class(controlPlane={"nodeSelector": {"zone": "b"}}),
            Settings(plane_placement=Placement((("zone", "a"),))),
        ),
        Reason.INVALID_CONFIGURATION,
    ),
    "pool": (case(tenant(), tenant_class(nodes={"dedicated": True})), Reason.INVALID_CONFIGURATION),
    "receiver": (
        case(tenant(), tenant_class(audit={"webhook": WEBHOOK | {"certificateAuthority": "-----BEGIN CERTIFICATE-----"}})),
        Reason.INVALID_CONFIGURATION,
    ),
    "flavors": (
        case(
            tenant(quota={"cohort": "research", "resources": {"nvidia.com/gpu": FLAVORED}}),
            tenant_class(quota={"cohorts": ["research"]}),
        ),
        Reason.INVALID_CONFIGURATION,
    ),
    "supported": (case(tenant(hibernation={"enabled": True}), tenant_class()), Reason.NOT_SUPPORTED),
    "slurm": (
        case(tenant(scheduling={"mode": "Slurm"}), tenant_class(isolation={"podSecurity": "restricted"})),
        Reason.NOT_SUPPORTED,
    ),
    "adoption": (case(tenant(adopt="5b0c6f5e-0000-4000-8000-000000000001"), tenant_class()), Reason.ADOPTION_REFUSED),
    "namespaces": (case(tenant(), tenant_class(), foreign_namespaces=("bh-team-a",)), Reason.NAMESPACE_TAKEN),
    "nodes": (case(tenant(nodes=OWN), tenant_class(nodes={"maxDedicated": 1}), nodes=TAKEN), Reason.NODES_TAKEN),
}


@pytest.mark.parametrize("policy", admit.POLICIES, ids=lambda each: each.__name__)
def test_every_policy_is_reached(policy: admit.Policy) -> None:
    asked, reason = REFUSED[policy.__name__]
    refusing = next(each for each in admit.POLICIES if each(asked) is not None)
    assert refusing is policy
    refusal = admit.admit(asked)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason
    assert refusal == admit.refuse(asked) == policy(asked)


def test_every_policy_is_in_the_list() -> None:
    written = {
        name: each
        for name, each in inspect.getmembers(admit, inspect.isfunction)
        if each.__module__ == admit.__name__ and inspect.signature(each).return_annotation == Refusal | None
    }
    assert set(written) - {"refuse"} == {each.__name__ for each in admit.POLICIES} == set(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_what_runs_is_held_where_tenant_and_class_disagree_and_refused_as_ever_otherwise(name: str) -> None:
    asked, reason = REFUSED[name]
    answer = admit.admit(Case(**{field: getattr(asked, field) for field in Case.__dataclass_fields__} | {"runs": True}))
    kept = {"paused", "name", "known_class", "namespaces", "adoption"}
    assert isinstance(answer, Refusal) == (name in kept)
    if isinstance(answer, Admitted):
        assert answer.held is not None
        assert answer.held.reason is reason
        # A cluster that cannot be built as it is asked for stays as it runs.
        assert isinstance(answer.slurm, Refusal) == (name == "slurm")


def test_a_flavor_is_one_of_the_cohort_and_of_the_same_resource() -> None:
    asked = REFUSED["flavors"][0]
    of_others = {"spec": {"flavors": [{"name": "h100", "resource": "amd.com/gpu", "nodeLabels": {"kind": "h100"}}]}}
    refusal = admit.refuse(replace(asked, cohort=of_others))
    assert refusal is not None
    assert "spec.quota.resources[nvidia.com/gpu].flavors: h100 is not a flavor of Cohort research: none" in refusal.message
    listed = {"spec": {"flavors": [{"name": "h100", "resource": "nvidia.com/gpu", "nodeLabels": {"kind": "h100"}}]}}
    assert admit.refuse(replace(asked, cohort=listed)) is None


def test_of_nodes_of_its_own_a_tenant_is_told_what_was_found_only_where_it_claims_some() -> None:
    found = Finding(nodes=("one",))
    offer: dict[str, Any] = tenant_class(nodes={"maxDedicated": 1})
    claiming = admit.admit(case(tenant(nodes=OWN), offer, nodes=found))
    assert isinstance(claiming, Admitted)
    assert (claiming.claims_nodes, claiming.nodes) == (True, found)
    shared = admit.admit(case(tenant(), offer, nodes=found))
    assert isinstance(shared, Admitted)
    assert (shared.claims_nodes, shared.nodes) == (False, None)


def test_a_slurm_cluster_with_a_malformed_quota_is_left_as_it_runs() -> None:
    offer = tenant_class(quota={"resources": {"nvidia.com/gpu": {"maxNominal": 64}, "cpu": {"maxNominal": "many"}}})
    answer = admit.admit(case(tenant(scheduling={"mode": "Slurm"}), offer, runs=True))
    assert isinstance(answer, Admitted)
    assert isinstance(answer.slurm, Refusal)
