"""What a tenant is allotted of each resource: its quota over what its class gives, held against its class. Pure.

Whatever a class counts has a limit for every one of its tenants: none of it, unless Tenant or class say how much. Of CPU,
memory and storage, in which pods without GPUs live too, a tenant has what it asks for, else what its class gives, else the most
that the class allows; a class that says nothing sets no ceiling. The ResourceQuota on the host, the syncer's own count and the
nodes that the tenant sees all follow from the one list of limits made here.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from bulkhead.api import labels
from bulkhead.api.conditions import Reason
from bulkhead.api.podresources import AMOUNTS, MOST_DEVICES
from bulkhead.api.quantity import Amount, InvalidQuantityError, canonical, parse, readable, whole
from bulkhead.api.untrusted import mapping
from controller.plane.sections import PodBound
from controller.refusal import Refusal
from controller.sections import section_of

_OF_BYTES: Final = "requests.storage"
_LISTS: Final = ("gpuResources", "extendedResources")
_OF_ONE_CLASS: Final = f".storageclass.storage.k8s.io/{_OF_BYTES}"
_LIMITS: Final = ("limits.cpu", "limits.memory", "limits.ephemeral-storage")
_TOLERATIONS: Final = ("tolerations", "allowedTolerations")
_OF_PLATFORM: Final = re.compile(r"(^|[.])bulkhead[.]dev/")
_WORD: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_TAINT_KEY: Final = re.compile(rf"([a-z0-9][-.a-z0-9]*/)?{_WORD}")
_TAINT_VALUE: Final = re.compile(rf"({_WORD})?")
# What a container gets that names nothing and whose class says nothing.
_REQUESTS: Final = {"cpu": "10m", "ephemeral-storage": "64Mi", "memory": "32Mi"}


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


def limits(spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> dict[str, Amount]:
    """How much the tenant may use of each resource that has a limit."""
    asked, offered = resources_of(spec), resources_of(bounds)
    found, counted = {}, counted_resources(bounds)
    for name in _known(bounds):
        offer = section_of(offered, name)
        otherwise = "0" if name in counted or _devices(name) else offer.get("maxNominal")
        value = section_of(asked, name).get("nominal", offer.get("default", otherwise))
        if value is not None:
            found[name] = Amount.read(value)
    return found


def pod_bounds(bounds: Mapping[str, Any]) -> tuple[PodBound, ...]:
    """What one pod may ask for, where the class says so."""
    offered = resources_of(bounds)
    made = (
        PodBound(name, _text(offer.get("maxPerPod")), _text(offer.get("maxLimitRequestRatio")))
        for name, offer in ((name, section_of(offered, name)) for name in sorted(offered))
    )
    return tuple(bound for bound in made if bound.most or bound.ratio)


def most_per_claim(bounds: Mapping[str, Any]) -> str:
    """The most that one claim may ask for; empty where the class does not say."""
    return _text(section_of(resources_of(bounds), _OF_BYTES).get("maxPerClaim"))


def container_defaults(bounds: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Request and limit of containers that name none; limits only where the class has them, and requests always.

    A quota refuses a container that does not say how much it counts for. And without a request of its own a limit becomes the
    request: a node would be full of promises and empty of data.
    """
    given = section_of(bounds, "containerDefaults")
    limits = section_of(given, "limits")
    small = {name: min(value, limits.get(name, value), key=_size) for name, value in _REQUESTS.items()}
    requests = small | section_of(given, "requests")
    return tuple((n, str(requests.get(n, "")), str(limits.get(n, ""))) for n in sorted({*requests, *limits}))


def refuse_class(bounds: Mapping[str, Any]) -> Refusal | None:
    """Why no tenant of this class can have quotas, or pods that name nothing, or pods of its own alone."""
    offered, given = resources_of(bounds), section_of(bounds, "containerDefaults")
    for name in dict.fromkeys((*counted_resources(bounds), *offered)):
        fault = _fault(name, section_of(offered, name), section_of(given, "limits"))
        if fault is not None:
            field = f"class: spec.quota.resources[{name}]" if name in offered else f"class: {name}"
            return Refusal(Reason.IMPOSSIBLE_QUOTA, f"{field}{fault}")
    for name, number in section_of(section_of(bounds, "quota"), "objects").items():
        if readable(number) is None:
            return Refusal(Reason.IMPOSSIBLE_QUOTA, f"class: spec.quota.objects[{name}]: {number!r} is no quantity")
    return _refuse_defaults(bounds) or _refuse_tolerations(bounds)


def without_faults(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """A class without what no host accepts, for tenants that run; what merely contradicts itself stays."""
    offered, given = resources_of(bounds), section_of(bounds, "containerDefaults")
    limits, requests = ({n: v for n, v in section_of(given, part).items() if n in _REQUESTS} for part in ("limits", "requests"))
    requests |= {n: min(v, limits.get(n, v), key=_size) for n, v in requests.items()}
    sound = {n: amount for n, amount in offered.items() if _fault(n, section_of(offered, n), limits) is None}
    kept: dict[str, Any] = {list_: [n for n in bounds[list_] if _countable(n)] for list_ in _LISTS if bounds.get(list_)}
    quota = section_of(bounds, "quota") | {"resources": sound}
    nodes = section_of(bounds, "nodes")
    nodes |= {field: [obj for obj in nodes[field] if _intolerable(obj) is None] for field in _TOLERATIONS if nodes.get(field)}
    kept |= {"nodes": nodes} if nodes else {}
    return {**bounds, **kept, "quota": quota, "containerDefaults": {"requests": requests, "limits": limits}}


def _fault(name: str, offer: Mapping[str, Any], limits: Mapping[str, Any]) -> str | None:
    """Why no host has such a quota."""
    if not _countable(name):
        known = ", ".join((*AMOUNTS, *_LIMITS))
        return f": no quota is of that, only of {known} and of devices such as {labels.GPU}; for objects there is quota.objects"
    if name in _LIMITS and name.removeprefix("limits.") not in limits:
        return f": a pod without a limit would be refused; needs containerDefaults.{name}, which gives it one"
    return next(
        (f".{key}: {value!r} is no quantity" for key, value in sorted(offer.items()) if _number("cpu", value) is None), None
    )


def _refuse_defaults(bounds: Mapping[str, Any]) -> Refusal | None:
    given = section_of(bounds, "containerDefaults")
    for part in ("requests", "limits"):
        for name in sorted(section_of(given, part)):
            if name not in _REQUESTS:
                text = f"containers are given {', '.join(_REQUESTS)}; for what else they need they ask themselves"
                return Refusal(Reason.INVALID_CONFIGURATION, f"class: spec.containerDefaults.{part}[{name}]: {text}")
    for name, request, limit in container_defaults(bounds):
        if limit and _size(request) > _size(limit):
            text = f"{request} is more than the default limit of {limit}"
            return Refusal(Reason.OUT_OF_BOUNDS, f"class: spec.containerDefaults.requests[{name}]: {text}")
    return next(filter(None, (_contradiction(bound, container_defaults(bounds)) for bound in pod_bounds(bounds))), None)


def _refuse_tolerations(bounds: Mapping[str, Any]) -> Refusal | None:
    """What the CRD refuses (`Toleration`), of classes that were stored before it did."""
    nodes = section_of(bounds, "nodes")
    for field in _TOLERATIONS:
        for index, toleration in enumerate(nodes.get(field) or ()):
            fault = _intolerable(toleration)
            if fault is not None:
                return Refusal(Reason.INVALID_CONFIGURATION, f"class: spec.nodes.{field}[{index}]{fault}")
    return None


def _intolerable(toleration: Any) -> str | None:
    """Why no pod may bear that toleration: it opens nodes that are not the tenant's, or no host takes it."""
    given = mapping(toleration)
    key, value = given.get("key") or "", given.get("value") or ""
    faults = {
        ".key: without one every taint is tolerated, also of nodes that are another tenant's: name the taint's key": not key,
        f".key: {key}: taints of bulkhead.dev are the platform's: nodes that are dedicated to a tenant bear them": (
            _OF_PLATFORM.search(key)
        ),
        f".key: {key}: keeps the host's own nodes from tenants: taint nodes that are theirs by another key": (
            key.startswith("node-role.kubernetes.io/")
        ),
        f": {key}={value} is no key and value that a taint can have": (
            not _TAINT_KEY.fullmatch(key) or not _TAINT_VALUE.fullmatch(value)
        ),
        f".value: {value}: operator Exists compares no value": value and given.get("operator") == "Exists",
        ".tolerationSeconds: needs effect NoExecute": (
            given.get("tolerationSeconds") is not None and given.get("effect") != "NoExecute"
        ),
    }
    return next((text for text, found in faults.items() if found), None)


def _contradiction(bound: PodBound, defaults: tuple[tuple[str, str, str], ...]) -> Refusal | None:
    """Where what a container gets that names nothing is more than what one may have."""
    request, limit = next(((request, limit) for name, request, limit in defaults if name == bound.resource), ("", ""))
    name = bound.resource
    if bound.most and request and _size(request) > parse(bound.most):
        text = f"{request} is more than one pod may request: maxPerPod of {name} is {bound.most}"
        return Refusal(Reason.OUT_OF_BOUNDS, f"class: spec.containerDefaults.requests[{name}]: {text}")
    if bound.ratio and limit and _size(limit) > _size(request) * parse(bound.ratio):
        text = f"{limit} is more than {bound.ratio} times (maxLimitRequestRatio) the default request of {request or 0}"
        return Refusal(
            Reason.OUT_OF_BOUNDS, f"class: spec.containerDefaults.limits[{name}]: {text}; raise containerDefaults.requests"
        )
    return None


def refuse_asked(spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> Refusal | None:
    """Why the class does not allow this quota; the class itself is without fault."""
    asked, offered = resources_of(spec), resources_of(bounds)
    known = _known(bounds)
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


def resources_of(section: Mapping[str, Any]) -> dict[str, Any]:
    """What a Tenant's spec, or a class's, says of each resource."""
    return section_of(section_of(section, "quota"), "resources")


def _known(bounds: Mapping[str, Any]) -> tuple[str, ...]:
    """The resources of which a tenant of the class may have a quota."""
    return tuple(dict.fromkeys((*counted_resources(bounds), *resources_of(bounds), *AMOUNTS)))


def _devices(name: str) -> bool:
    """Whether a resource is of a vendor's devices."""
    return "/" in name and not name.endswith(f"/{_OF_BYTES}")


def _countable(name: str) -> bool:
    """Whether the host has a quota of that, and one under that name alone; the CRD says the same (`QUOTA_KEYS`)."""
    if name in (*AMOUNTS, *_LIMITS) or name.endswith(_OF_ONE_CLASS) or name.startswith("hugepages-"):
        return True
    return (
        _devices(name) and not name.startswith(("requests.", "limits.", "count/", "kubernetes.io/")) and "k8s.io/" not in name
    )


def _number(name: str, value: Any) -> Decimal | None:
    """How much that is; None where it is nothing that an API server would take."""
    try:
        number = Decimal(whole(value)) if _devices(name) or name.endswith(_OF_BYTES) else parse(value)
    except InvalidQuantityError:
        return None
    return None if _devices(name) and number > MOST_DEVICES else number


def _text(value: Any) -> str:
    return "" if value is None else canonical(value)


def _size(value: Any) -> Decimal:
    return readable(value) or Decimal(0)
