"""A tenant's quota of each resource: computed from its Tenant and its class, and checked against the class. Pure.

If a class counts a resource, each of its tenants has a limit for it: 0, unless the Tenant or the class sets an amount. CPU,
memory and storage, which pods without GPUs also need, are different: the Tenant's value applies, then the class's default, then
the class's maximum; without any of these there is no ceiling. The ResourceQuota on the host, the syncer's own count and the
capacity of the nodes that the tenant sees are all computed from the list of limits that this module returns.
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
# Requests of a container that sets none, in a class that has no defaults.
_REQUESTS: Final = {"cpu": "10m", "ephemeral-storage": "64Mi", "memory": "32Mi"}


def gpu_resources(bounds: Mapping[str, Any]) -> list[str]:
    """The resources that count as GPUs in this class."""
    return list(bounds.get("gpuResources") or [labels.GPU])


def extended_resources(bounds: Mapping[str, Any]) -> list[str]:
    """The other resources that pods of this class may request: network devices, huge pages."""
    gpus = gpu_resources(bounds)
    return [name for name in bounds.get("extendedResources") or () if name not in gpus]


def counted_resources(bounds: Mapping[str, Any]) -> tuple[str, ...]:
    """The resources of which a tenant has 0 unless its quota or the class sets an amount."""
    return (*gpu_resources(bounds), *extended_resources(bounds))


def device_classes(bounds: Mapping[str, Any]) -> dict[str, str | int]:
    """What a device of each allowed class counts as: a resource name, or the quota that the device class itself has."""
    quota, counted = section_of(bounds, "deviceClassQuota"), counted_resources(bounds)
    found: dict[str, str | int] = {}
    for name in bounds.get("allowedDeviceClasses") or ():
        counted_as = section_of(quota, name)
        resource = counted_as.get("resource")
        # A device class that counts against a resource without a quota would have no limit at all.
        found[str(name)] = str(resource) if resource in counted and "/" in resource else int(counted_as.get("devices") or 0)
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
    """The bounds on what one pod may request, for each resource for which the class sets them."""
    offered = resources_of(bounds)
    made = (
        PodBound(name, _text(offer.get("maxPerPod")), _text(offer.get("maxLimitRequestRatio")))
        for name, offer in ((name, section_of(offered, name)) for name in sorted(offered))
    )
    return tuple(bound for bound in made if bound.most or bound.ratio)


def most_per_claim(bounds: Mapping[str, Any]) -> str:
    """The largest size that one PersistentVolumeClaim may request; empty if the class sets none."""
    return _text(section_of(resources_of(bounds), _OF_BYTES).get("maxPerClaim"))


def container_defaults(bounds: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Default requests and limits of containers that set none: limits only if the class sets them, requests always.

    A ResourceQuota rejects a container without a request for a counted resource. And if only a limit is set, Kubernetes uses
    the limit as the request, so that nodes would be fully requested and hardly used.
    """
    given = section_of(bounds, "containerDefaults")
    limits = section_of(given, "limits")
    small = {name: min(value, limits.get(name, value), key=_size) for name, value in _REQUESTS.items()}
    requests = small | section_of(given, "requests")
    return tuple((n, str(requests.get(n, "")), str(limits.get(n, ""))) for n in sorted({*requests, *limits}))


def refuse_class(bounds: Mapping[str, Any]) -> Refusal | None:
    """Why the class's quotas, container defaults or tolerations cannot work for any tenant; None if they can."""
    offered, given = resources_of(bounds), section_of(bounds, "containerDefaults")
    for name in dict.fromkeys((*counted_resources(bounds), *offered)):
        fault = _fault(name, section_of(offered, name), section_of(given, "limits"))
        if fault is not None:
            field = f"class: spec.quota.resources[{name}]" if name in offered else f"class: {name}"
            return Refusal(Reason.IMPOSSIBLE_QUOTA, f"{field}{fault}")
    for name, number in section_of(section_of(bounds, "quota"), "objects").items():
        if readable(number) is None:
            return Refusal(Reason.IMPOSSIBLE_QUOTA, f"class: spec.quota.objects[{name}]: must be a quantity, not {number!r}")
    return _refuse_defaults(bounds) or _refuse_tolerations(bounds)


def without_faults(bounds: Mapping[str, Any]) -> dict[str, Any]:
    """The class without the fields that every host rejects, for tenants that already run; mere contradictions stay in it."""
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
    """Why the host cannot enforce a quota of this resource; None if it can."""
    if not _countable(name):
        known = ", ".join((*AMOUNTS, *_LIMITS))
        return f": cannot be counted, only {known} and devices such as {labels.GPU}; set quota.objects for numbers of objects"
    if name in _LIMITS and name.removeprefix("limits.") not in limits:
        return f": the host would reject pods without a limit; set containerDefaults.{name} as their default"
    return next(
        (
            f".{key}: must be a quantity such as 64 or 512Gi, not {value!r}"
            for key, value in sorted(offer.items())
            if _number("cpu", value) is None
        ),
        None,
    )


def _refuse_defaults(bounds: Mapping[str, Any]) -> Refusal | None:
    given = section_of(bounds, "containerDefaults")
    for part in ("requests", "limits"):
        for name in sorted(section_of(given, part)):
            if name not in _REQUESTS:
                text = f"defaults exist only for {', '.join(_REQUESTS)}; containers must request other resources themselves"
                return Refusal(Reason.INVALID_CONFIGURATION, f"class: spec.containerDefaults.{part}[{name}]: {text}")
    for name, request, limit in container_defaults(bounds):
        if limit and _size(request) > _size(limit):
            text = f"{request} is more than the default limit of {limit}"
            return Refusal(Reason.OUT_OF_BOUNDS, f"class: spec.containerDefaults.requests[{name}]: {text}")
    return next(filter(None, (_contradiction(bound, container_defaults(bounds)) for bound in pod_bounds(bounds))), None)


def _refuse_tolerations(bounds: Mapping[str, Any]) -> Refusal | None:
    """Repeats the CRD's rules for tolerations (`Toleration`), for classes that were stored before the CRD had them."""
    nodes = section_of(bounds, "nodes")
    for field in _TOLERATIONS:
        for index, toleration in enumerate(nodes.get(field) or ()):
            fault = _intolerable(toleration)
            if fault is not None:
                return Refusal(Reason.INVALID_CONFIGURATION, f"class: spec.nodes.{field}[{index}]{fault}")
    return None


def _intolerable(toleration: Any) -> str | None:
    """Why pods must not have this toleration: it opens nodes of other tenants, or API servers reject it. None if they may."""
    given = mapping(toleration)
    key, value = given.get("key") or "", given.get("value") or ""
    faults = {
        ".key: must be the key of a taint: without it, every taint is tolerated, even on nodes of other tenants": not key,
        f".key: {key}: tolerations of bulkhead.dev taints are not allowed: these taints dedicate nodes to one tenant": (
            _OF_PLATFORM.search(key)
        ),
        f".key: {key}: is not allowed: it keeps tenants off the host's own nodes; taint nodes for tenants with another key": (
            key.startswith("node-role.kubernetes.io/")
        ),
        f": {key}={value} is not a valid key and value of a taint": (
            not _TAINT_KEY.fullmatch(key) or not _TAINT_VALUE.fullmatch(value)
        ),
        f".value: {value}: operator Exists compares no value": value and given.get("operator") == "Exists",
        ".tolerationSeconds: needs effect NoExecute": (
            given.get("tolerationSeconds") is not None and given.get("effect") != "NoExecute"
        ),
    }
    return next((text for text, found in faults.items() if found), None)


def _contradiction(bound: PodBound, defaults: tuple[tuple[str, str, str], ...]) -> Refusal | None:
    """Why the container defaults exceed what the class allows for one pod; None if they do not."""
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
    """Why the class does not allow this quota; None if it does. The class itself has passed `refuse_class`."""
    asked, offered = resources_of(spec), resources_of(bounds)
    known = _known(bounds)
    for name in sorted(asked):
        value = section_of(asked, name).get("nominal", 0)
        field = f"spec.quota.resources[{name}].nominal"
        if name not in known:
            return Refusal(
                Reason.IMPOSSIBLE_QUOTA, f"{field}: the class has no resource {name}, only {', '.join(sorted(known))}"
            )
        number = _number(name, value)
        if number is None:
            what = f"a whole number of at most {MOST_DEVICES}" if _devices(name) else "a quantity such as 64 or 512Gi"
            return Refusal(Reason.IMPOSSIBLE_QUOTA, f"{field}: must be {what}, not {value!r}")
        limit = section_of(offered, name).get("maxNominal")
        if limit is not None and number > parse(limit):
            return Refusal(Reason.OUT_OF_BOUNDS, f"{field}: {value} is more than the {limit} that the class allows")
    return None


def resources_of(section: Mapping[str, Any]) -> dict[str, Any]:
    """The quota section of each resource, from the spec of a Tenant or of a class."""
    return section_of(section_of(section, "quota"), "resources")


def _known(bounds: Mapping[str, Any]) -> tuple[str, ...]:
    """The resources of which a tenant of the class may have a quota."""
    return tuple(dict.fromkeys((*counted_resources(bounds), *resources_of(bounds), *AMOUNTS)))


def _devices(name: str) -> bool:
    """Whether a resource stands for devices of a vendor, such as nvidia.com/gpu."""
    return "/" in name and not name.endswith(f"/{_OF_BYTES}")


def _countable(name: str) -> bool:
    """Whether a ResourceQuota can count this resource, and under this name only; the CRD has the same rule (`QUOTA_KEYS`)."""
    if name in (*AMOUNTS, *_LIMITS) or name.endswith(_OF_ONE_CLASS) or name.startswith("hugepages-"):
        return True
    return (
        _devices(name) and not name.startswith(("requests.", "limits.", "count/", "kubernetes.io/")) and "k8s.io/" not in name
    )


def _number(name: str, value: Any) -> Decimal | None:
    """The amount; None if an API server would not accept it."""
    try:
        number = Decimal(whole(value)) if _devices(name) or name.endswith(_OF_BYTES) else parse(value)
    except InvalidQuantityError:
        return None
    return None if _devices(name) and number > MOST_DEVICES else number


def _text(value: Any) -> str:
    return "" if value is None else canonical(value)


def _size(value: Any) -> Decimal:
    return readable(value) or Decimal(0)
