"""What a tenant is allotted of each resource: its quota, held against its class. Pure.

Whatever a class counts has a limit for every one of its tenants: none of it, unless the Tenant says how much. The ResourceQuota
on the host, the syncer's own count and the nodes that the tenant sees all follow from the one list of limits made here.
"""

from collections.abc import Mapping
from typing import Any

from bulkhead.api import labels
from bulkhead.api.conditions import Reason
from bulkhead.api.quantity import InvalidQuantityError, canonical, whole
from controller.refusal import Refusal
from controller.sections import section_of

_MOST = 1_000_000


def gpu_resources(bounds: Mapping[str, Any]) -> list[str]:
    """The resources that count as GPUs in this class."""
    return list(bounds.get("gpuResources") or [labels.GPU])


def counted_resources(bounds: Mapping[str, Any]) -> tuple[str, ...]:
    """Every resource of a class of which a tenant has nothing unless its quota names it."""
    return tuple(gpu_resources(bounds))


def limits(spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> dict[str, str]:
    """How much the tenant may use of each resource that has a limit, as an API server writes it."""
    asked = _resources(spec)
    named = {name: canonical(section_of(asked, name).get("nominal", 0)) for name in asked}
    return dict.fromkeys(counted_resources(bounds), "0") | named


def refuse(spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> Refusal | None:
    """Why a quota cannot be had in this class."""
    asked, highest = _resources(spec), _resources(bounds)
    known = {*counted_resources(bounds), *highest}
    for name in sorted(asked):
        value = section_of(asked, name).get("nominal", 0)
        field = f"spec.quota.resources[{name}].nominal"
        if name not in known:
            return Refusal(
                Reason.IMPOSSIBLE_QUOTA, f"{field}: the class knows no resource {name}, only {', '.join(sorted(known))}"
            )
        try:
            number = whole(value)
        except InvalidQuantityError as error:
            return Refusal(Reason.IMPOSSIBLE_QUOTA, f"{field}: {error}")
        if number > _MOST:
            return Refusal(Reason.IMPOSSIBLE_QUOTA, f"{field}: {value} is more than the {_MOST} that can be counted")
        limit = section_of(highest, name).get("maxNominal")
        if limit is not None and number > whole(limit):
            return Refusal(Reason.OUT_OF_BOUNDS, f"{field}: {value} is more than the {limit} that the class allows")
    return None


def _resources(section: Mapping[str, Any]) -> dict[str, Any]:
    return section_of(section_of(section, "quota"), "resources")
