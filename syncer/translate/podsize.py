"""How large a pod may be: the most that it may request, and how far a container's limit may lie above its request. Pure.

The host's admission policy says the same again and knows less words. A container that names no limit is not held to a ratio:
nothing is refused for what its tenant did not write.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, cast

from bulkhead.api import podresources
from bulkhead.api.podresources import mapping, mappings
from bulkhead.api.quantity import InvalidQuantityError, canonical, parse
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.view import Obj, TenantView

# What the host's LimitRange gives a request to, of what a pod may name as a whole.
_DEFAULTED: Final = frozenset({"cpu", "memory"})


def check(host: Obj, view: TenantView) -> None:
    """Refuse a host pod that is larger than its tenant's class lets pods be."""
    for resource, most in sorted(view.most_per_pod.items()):
        asked = podresources.requested(host, resource)
        if asked > parse(most):
            text = f"the pod requests {canonical(asked, like=most)} {resource} in all, and one pod may request at most {most}"
            raise Untranslatable(Reason.TOO_LARGE, text, "spec")
    spec = mapping(host.get("spec"))
    for resource, ratio in sorted(view.most_limit_request_ratio.items()):
        _check_ratio(spec, "spec", resource, ratio)
        for field in ("initContainers", "containers"):
            for index, container in enumerate(mappings(spec.get(field))):
                _check_ratio(container, f"spec.{field}[{index}]", resource, ratio)


def shared(spec: Obj) -> None:
    """Leave to the pod what it names as a whole: the host would give each container a request of its own beside it.

    Together those may be more than the pod asks for, and no API server takes that.
    """
    whole = mapping(spec.get("resources"))
    named = _DEFAULTED & {resource for part in ("requests", "limits") for resource in mapping(whole.get(part))}
    for container in [*mappings(spec.get("initContainers")), *mappings(spec.get("containers"))]:
        own = mapping(container.get("resources"))
        said = {*mapping(own.get("requests")), *mapping(own.get("limits"))}
        if missing := sorted(named - said):
            filled = dict(mapping(own.get("requests"))) | dict.fromkeys(missing, "0")
            cast("Obj", container)["resources"] = {**own, "requests": filled}


def _check_ratio(holder: Mapping[str, Any], path: str, resource: str, ratio: str) -> None:
    resources = mapping(holder.get("resources"))
    request, limit = (_quantity(mapping(resources.get(part)).get(resource)) for part in ("requests", "limits"))
    if request is not None and limit is not None and limit > request * parse(ratio):
        written = [str(mapping(resources.get(part)).get(resource)) for part in ("limits", "requests")]
        text = f"a limit of {written[0]} {resource}, and at most {ratio} times the request of {written[1]} is allowed"
        raise Untranslatable(Reason.TOO_LARGE, text, f"{path}.resources.limits")


def _quantity(value: Any) -> Decimal | None:
    try:
        return None if value is None else parse(value)
    except InvalidQuantityError:
        return None
