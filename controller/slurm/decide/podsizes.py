"""Decides how large Slurm's own pods may be, by their tenant's class. Pure.

Each is a pod of one container. It is checked as the host checks it: with the requests and limits that the class gives to
containers without their own. Built-in sizes are adapted to the class; sizes that a tenant sets are refused, with their field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.quantity import InvalidQuantityError, canonical, parse
from controller import allotment
from controller.plane.sections import PodBound
from controller.sections import section_of
from controller.slurm.spec import ALLOTMENTS, Allotment

_MEBI: Final = 2**20


@dataclass(frozen=True, slots=True)
class PodSizes:
    """A class's rules for pods: its bounds, and its defaults for containers."""

    bounds: tuple[PodBound, ...] = ()
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)

    def allotment(self, asked: Mapping[str, Any], daemon: str) -> Allotment:
        """The sizes of a daemon: those in its section, else the built-in ones, as far as the class allows them."""
        resources, usual = section_of(asked, "resources"), ALLOTMENTS[daemon]
        requests, limits = section_of(resources, "requests"), section_of(resources, "limits")
        cpu_limit = limits.get("cpu")
        made = replace(
            usual,
            memory_limit=str(limits.get("memory", usual.memory_limit)),
            cpu_limit=None if cpu_limit is None else str(cpu_limit),
        )
        return replace(
            made,
            cpu=str(requests.get("cpu", self._fitting("cpu", made.cpu, cpu_limit))),
            memory=str(requests.get("memory", self._fitting("memory", made.memory, made.memory_limit))),
        )

    def fault(self, resources: Obj) -> str | None:
        """Why the class allows no pod with these resources, beginning with the field; None if it allows it."""
        for name in sorted({*self.limits, *resources["requests"]}):
            request, limit = self._filled(name, resources)
            if _more(request, limit):
                named = "its limit" if name in resources["limits"] else "the default limit"
                return f"requests.{name}: {request} is more than {named} of {limit}"
        for bound in self.bounds:
            request, limit = self._filled(bound.resource, resources)
            if bound.most and _more(request, bound.most):
                text = f"requests {request} {bound.resource}, and the class lets one pod request {bound.most}"
                return f"requests.{bound.resource}: a pod of it {text}"
            if bound.ratio and _more(limit, request, bound.ratio):
                text = f"a limit of {limit} is more than {bound.ratio} times (maxLimitRequestRatio) the request of {request}"
                return f"requests.{bound.resource}: {text}"
        return None

    def _filled(self, name: str, resources: Obj) -> tuple[Any, Any]:
        """Request and limit as the host sees them: without a request the limit counts, and then the defaults of the class."""
        requests, limits = resources["requests"], resources["limits"]
        return requests.get(name, limits.get(name, self.requests.get(name))), limits.get(name, self.limits.get(name))

    def _fitting(self, name: str, usual: str, limit: Any) -> str:
        """The built-in request, raised as far as its limit requires."""
        most = self.limits.get(name) if limit is None else limit
        ratio = next((bound.ratio for bound in self.bounds if bound.resource == name and bound.ratio), "")
        if not ratio or not _more(most, usual, ratio):
            return usual
        step = Decimal(_MEBI) if name == "memory" else Decimal("0.001")
        needed = (parse(most) / max(parse(ratio), Decimal(1)) / step).to_integral_value(ROUND_CEILING) * step
        return str(most) if needed > parse(most) else canonical(needed, like=usual)


def pod_sizes(bounds: Mapping[str, Any]) -> PodSizes:
    """The rules of a class for pods."""
    defaults = allotment.container_defaults(bounds)
    return PodSizes(
        allotment.pod_bounds(bounds),
        {name: request for name, request, _ in defaults if request},
        {name: limit for name, _, limit in defaults if limit},
    )


def _more(one: Any, other: Any, times: str = "1") -> bool:
    """Whether `one` is more than `times` times `other`; False if one of them is missing or not a quantity."""
    try:
        return one is not None and other is not None and parse(one) > parse(other) * max(parse(times), Decimal(1))
    except InvalidQuantityError:
        return False
