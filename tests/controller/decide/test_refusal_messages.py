"""A Tenant that cannot be built is refused with a fixed reason and a message that names the field."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bulkhead.api.conditions import Reason
from controller.decide.admit import paused, refuse
from tests.kit.tenantsamples import NOW, case, tenant, tenant_class

REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any] | None, Reason, str]] = {
    "no such class": (tenant(), None, Reason.UNKNOWN_CLASS, "spec.class"),
    "a name of the system": (tenant("system"), tenant_class(), Reason.INVALID_NAME, "reserved"),
    "a name that collides": (tenant("a-work"), tenant_class(), Reason.INVALID_NAME, "-work"),
    "a version that cannot be had": (
        tenant(kubernetesVersion="v1.99.0"),
        tenant_class(),
        Reason.VERSION_UNAVAILABLE,
        "available: v1.36.3",
    ),
    "a version that the class does not offer": (
        tenant(kubernetesVersion="v1.36.3"),
        tenant_class(kubernetesVersions=["v1.35.0"]),
        Reason.VERSION_UNAVAILABLE,
        "class: spec.kubernetesVersions: v1.35.0; the installation offers v1.36.3",
    ),
    "more than the class allows": (
        tenant(quota={"resources": {"nvidia.com/gpu": {"nominal": 65}}}),
        tenant_class(),
        Reason.OUT_OF_BOUNDS,
        "65 is more than the 64",
    ),
    "a resource that the class does not know": (
        tenant(quota={"resources": {"amd.com/gpu": {"nominal": 1}}}),
        tenant_class(),
        Reason.IMPOSSIBLE_QUOTA,
        "amd.com/gpu",
    ),
    "half a GPU": (
        tenant(quota={"resources": {"nvidia.com/gpu": {"nominal": "0.5"}}}),
        tenant_class(),
        Reason.IMPOSSIBLE_QUOTA,
        "whole number",
    ),
    "Slurm where no root may be": (
        tenant(scheduling={"mode": "Slurm"}, isolation={"podSecurity": "restricted"}),
        tenant_class(),
        Reason.NOT_SUPPORTED,
        "spec.isolation.podSecurity",
    ),
    "a cohort": (tenant(quota={"cohort": "research"}), tenant_class(), Reason.OUT_OF_BOUNDS, "spec.quota.cohort"),
    "every node of the host": (
        tenant(nodes={"dedicated": True}),
        tenant_class(nodes={"maxDedicated": 64}),
        Reason.INVALID_CONFIGURATION,
        "needs a selector",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_built_is_refused_with_a_fixed_reason_and_the_field(name: str) -> None:
    asked, bounds, reason, part = REFUSED[name]
    refusal = refuse(case(asked, bounds))
    assert refusal is not None
    assert refusal.reason is reason
    assert part in refusal.message


def test_a_paused_tenant_is_left_alone_until_its_time() -> None:
    asked = tenant(pausedUntil="2026-06-01T12:30:00Z")
    assert paused(case(asked, None)) is not None
    assert paused(replace(case(asked, None), now=NOW + timedelta(hours=1))) is None
    small = tenant(pausedUntil="2026-06-01t12:30:00z")
    assert paused(case(small, None)) is not None
    assert paused(replace(case(small, None), now=NOW + timedelta(hours=1))) is None


@pytest.mark.parametrize("odd", ["0000-01-01T00:00:00Z", "2026-06-01T12:30:00+99:99", "2026-06-01T12:30:00x5Z"])
def test_a_pause_until_a_time_that_cannot_be_read_goes_on_and_says_so(odd: str) -> None:
    """An API server takes each of them."""
    found = paused(replace(case(tenant(pausedUntil=odd), None), now=NOW + timedelta(days=9999)))
    assert found is not None
    assert found.reason is Reason.PAUSED
    assert f"{odd} is not a time that can be read" in found.message
