"""How large a pod may be: the most that it may request, and how far a container's limit may lie above its request. Pure.

The host's admission policy says the same again and knows less words. It judges the pod that the host's LimitRange has filled
in, so what its class gives a container counts here too. A container without a limit, of its own or of its class, is not held to
a ratio; nor is one whose pod names a limit as a whole, which is held to one instead.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from bulkhead.api import podresources
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import canonical, parse, readable
from bulkhead.api.untrusted import mapping, mappings
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.view import TenantView

_CONTAINERS: Final = ("initContainers", "containers")
# What the host's LimitRange gives a request to, of what a pod may name as a whole.
_DEFAULTED: Final = frozenset({"cpu", "memory"})


def check(host: Obj, view: TenantView) -> None:
    """Refuse a host pod that is larger than its tenant's class lets pods be, or that the class's own defaults contradict."""
    spec, seen = mapping(host.get("spec")), with_defaults(host, view)
    for resource, most in sorted(view.most_per_pod.items()):
        asked = podresources.requested(seen, resource)
        if asked > parse(most):
            named = asked == podresources.requested(host, resource)
            how = "" if named else f", with the {view.default_requests[resource]} of each container that names none"
            total = f"the pod requests {canonical(asked, like=most)} {resource} in all{how}"
            raise Untranslatable(Reason.TOO_LARGE, f"{total}, and one pod may request at most {most}", "spec")
    stated, whole = mapping(spec.get("resources")), mapping(mapping(spec.get("resources")).get("limits"))
    for resource, ratio in sorted(view.most_limit_request_ratio.items()):
        request, limit = mapping(stated.get("requests")).get(resource), whole.get(resource)
        if _less(request, limit, ratio):
            raise _too_far(f"{limit} {resource},", ratio, request, "spec")
    for field in _CONTAINERS:
        for index, container in enumerate(mappings(spec.get(field))):
            _check_container(mapping(container.get("resources")), f"spec.{field}[{index}]", whole, view)


def with_defaults(host: Obj, view: TenantView) -> Obj:
    """A host pod with what the host's LimitRange gives its containers."""
    spec = mapping(host.get("spec"))
    filled = {
        field: [
            {**container, "resources": _filled(mapping(container.get("resources")), view)}
            for container in mappings(spec.get(field))
        ]
        for field in _CONTAINERS
    }
    return {**host, "spec": {**spec, **filled}}


def shared(spec: Obj, view: TenantView) -> None:
    """Leave to the pod what it names as a whole: the host would give each container a request and a limit of its own beside it.

    Together those may be more than the pod asks for, and no API server takes that. Where the class has a limit for containers,
    theirs is that of the pod.
    """
    whole = mapping(spec.get("resources"))
    limits = {name: limit for name, limit in mapping(whole.get("limits")).items() if name in view.default_limits}
    named = _DEFAULTED & {resource for part in ("requests", "limits") for resource in mapping(whole.get(part))}
    for container in [*mappings(spec.get("initContainers")), *mappings(spec.get("containers"))]:
        own = mapping(container.get("resources"))
        stated = {*mapping(own.get("requests")), *mapping(own.get("limits"))}
        if missing := sorted(named - stated):
            filled = dict(mapping(own.get("requests"))) | dict.fromkeys(missing, "0")
            own = {**own, "requests": filled}
        if set(limits) - set(mapping(own.get("limits"))):
            own = {**own, "limits": limits | dict(mapping(own.get("limits")))}
        if own:
            cast("Obj", container)["resources"] = own


def _filled(own: Mapping[str, Any], view: TenantView) -> Obj:
    """A container's resources as the host judges them: a limit is a request first, then come the defaults of its class."""
    requests, limits = mapping(own.get("requests")), mapping(own.get("limits"))
    found = {
        "requests": {**view.default_requests, **limits, **requests},
        "limits": {**view.default_limits, **limits},
    }
    return {**own, **{part: amounts for part, amounts in found.items() if amounts}}


def _check_container(own: Mapping[str, Any], path: str, whole: Mapping[str, Any], view: TenantView) -> None:
    """Hold a container's limits against its requests, wherever the two come from."""
    seen, named = _filled(own, view), mapping(own.get("limits"))
    requests = mapping(seen.get("requests"))
    for resource, limit in sorted(mapping(seen.get("limits")).items()):
        request = requests.get(resource)
        stated = f"{limit} {resource}," + ("" if resource in named else " which a container has that names none,")
        if _less(limit, request):
            text = f"a request of {request} is more than the limit of {stated} so name a limit too"
            raise Untranslatable(Reason.TOO_LARGE, text, f"{path}.resources.requests")
        ratio = view.most_limit_request_ratio.get(resource)
        if resource not in whole and ratio is not None and _less(request, limit, ratio):
            raise _too_far(stated, ratio, request, path)


def _too_far(limit: str, ratio: str, request: Any, path: str) -> Untranslatable:
    text = f"a limit of {limit} and at most {ratio} times the request of {request} is allowed"
    return Untranslatable(Reason.TOO_LARGE, text, f"{path}.resources.limits")


def _less(one: Any, other: Any, times: str = "1") -> bool:
    """Whether so many times `one` is less than `other`; what is missing or no quantity is neither."""
    least, most = readable(one), readable(other)
    return least is not None and most is not None and least * parse(times) < most
