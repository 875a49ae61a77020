"""What a tenant is allotted of each resource: its quota over what its class gives, held against its class. Pure.

Whatever a class counts has a limit for every one of its tenants: none of it, unless Tenant or class say how much. Of CPU,
memory and storage, in which pods without GPUs live too, a tenant has what it asks for, else what its class gives, else the most
that the class allows; a class that says nothing sets no ceiling. The ResourceQuota on the host, the syncer's own count and the
nodes that the tenant sees all follow from the one list of limits made here.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from bulkhead.api import labels
from bulkhead.api.conditions import Reason
from bulkhead.api.podresources import AMOUNTS, MOST_DEVICES
from bulkhead.api.quantity import InvalidQuantityError, canonical, parse, whole
from controller.plane.spec import PodBound
from controller.refusal import Refusal
from controller.sections import section_of

_OF_BYTES: Final = "requests.storage"


def gpu_resources(bounds: Mapping[str, Any]) -> list[str]:
    """The resources that count as GPUs in this class."""
    return list(bounds.get("gpuResources") or [labels.GPU])


def extended_resources(bounds: Mapping[str, Any]) -> list[str]:
    """The other resources that pods of this class may ask for: network devices, huge pages."""
    gpus = gpu_resources(bounds)
    return [name for name in bounds.get("extendedResources") or () if name not in gpus]


def counted_resources(bounds: Mapping[str, Any]) -> tuple[str, ...]:
    """Every resource of a class of which a tenant has nothing unless its quota or the class gives it some."""
    return (*gpu_resources(bounds), *extended_resources(bounds))


def device_classes(bounds: Mapping[str, Any]) -> dict[str, str | int]:
    """What the devices of each allowed class count against: a resource, or a number of the class's own."""
    quota, counted = section_of(bounds, "deviceClassQuota"), counted_resources(bounds)
    found: dict[str, str | int] = {}
    for name in bounds.get("allowedDeviceClasses") or ():
        said = section_of(quota, name)
        resource = said.get("resource")
        # A class that is to count against what does not count would have no limit at all.
        found[str(name)] = str(resource) if resource in counted and "/" in resource else int(said.get("devices") or 0)
    return found


def limits(spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> dict[str, str]:
    """How much the tenant may use of each resource that has a limit, as an API server writes it."""
    asked, offered = _resources(spec), _resources(bounds)
    found, counted = {}, counted_resources(bounds)
    for name in _known(bounds):
        offer = section_of(offered, name)
        otherwise = "0" if name in counted or _devices(name) else offer.get("maxNominal")
        value = section_of(asked, name).get("nominal", offer.get("default", otherwise))
        if value is not None:
            found[name] = canonical(value)
    return found


def pod_bounds(bounds: Mapping[str, Any]) -> tuple[PodBound, ...]:
    """What one pod may ask for, where the class says so."""
    offered = _resources(bounds)
    made = (
        PodBound(name, _text(offer.get("maxPerPod")), _text(offer.get("maxLimitRequestRatio")))
        for name, offer in ((name, section_of(offered, name)) for name in sorted(offered))
    )
    return tuple(each for each in made if each.most or each.ratio)


def most_per_claim(bounds: Mapping[str, Any]) -> str:
    """The most that one claim may ask for; empty where the class does not say."""
    return _text(section_of(_resources(bounds), _OF_BYTES).get("maxPerClaim"))


def refuse(spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> Refusal | None:
    """Why a quota cannot be had in this class."""
    asked, offered = _resources(spec), _resources(bounds)
    known = _known(bounds)
    for name in sorted(offered):
        for key, value in sorted(section_of(offered, name).items()):
            if _number("cpu", value) is None:
                return Refusal(Reason.IMPOSSIBLE_QUOTA, f"class: spec.quota.resources[{name}].{key}: {value!r} is no quantity")
    for name in sorted(asked):
        value = section_of(asked, name).get("nominal", 0)
        field = f"spec.quota.resources[{name}].nominal"
        if name not in known:
            return Refusal(
                Reason.IMPOSSIBLE_QUOTA, f"{field}: the class knows no resource {name}, only {', '.join(sorted(known))}"
            )
        number = _number(name, value)
        if number is None:
            what = f"a whole number of at most {MOST_DEVICES}" if _devices(name) else "a quantity such as 64 or 512Gi"
            return Refusal(Reason.IMPOSSIBLE_QUOTA, f"{field}: {value!r} is not {what}")
        limit = section_of(offered, name).get("maxNominal")
        if limit is not None and number > parse(limit):
            return Refusal(Reason.OUT_OF_BOUNDS, f"{field}: {value} is more than the {limit} that the class allows")
    return None


def _resources(section: Mapping[str, Any]) -> dict[str, Any]:
    return section_of(section_of(section, "quota"), "resources")


def _known(bounds: Mapping[str, Any]) -> tuple[str, ...]:
    """The resources of which a tenant of the class may have a quota."""
    return tuple(dict.fromkeys((*counted_resources(bounds), *_resources(bounds), *AMOUNTS)))


def _devices(name: str) -> bool:
    """Whether a resource is of a vendor's devices."""
    return "/" in name and not name.endswith(f"/{_OF_BYTES}")


def _number(name: str, value: Any) -> Decimal | None:
    """How much that is; None where it is nothing that an API server would take."""
    try:
        number = Decimal(whole(value)) if _devices(name) or name.endswith(_OF_BYTES) else parse(value)
    except InvalidQuantityError:
        return None
    return None if _devices(name) and number > MOST_DEVICES else number


def _text(value: Any) -> str:
    return "" if value is None else canonical(value)
