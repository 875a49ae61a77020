"""How large Slurm's own pods may be, by their tenant's class. Pure.

Each is a pod of one container. It is judged as the host judges it: with the requests and limits filled in that the class gives
to containers that name none. What is built in gives way to the class; what a tenant asks for is refused with its field.
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
    """What a class says of pods: its bounds, and what containers get of it."""

    bounds: tuple[PodBound, ...] = ()
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)

    def allotment(self, asked: Mapping[str, Any], daemon: str) -> Allotment:
        """What a daemon gets of its section: what that names, else what is built in, as far as the class takes it."""
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
        """What no pod of the class may have: the field of a container's resources, and why."""
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
        """Request and limit as the host sees them: a limit is a request first, then come the defaults of the class."""
        requests, limits = resources["requests"], resources["limits"]
        return requests.get(name, limits.get(name, self.requests.get(name))), limits.get(name, self.limits.get(name))

    def _fitting(self, name: str, usual: str, limit: Any) -> str:
        """The request that is built in, raised to what its limit needs."""
        most = self.limits.get(name) if limit is None else limit
        ratio = next((bound.ratio for bound in self.bounds if bound.resource == name and bound.ratio), "")
        if not ratio or not _more(most, usual, ratio):
            return usual
        step = Decimal(_MEBI) if name == "memory" else Decimal("0.001")
        needed = (parse(most) / max(parse(ratio), Decimal(1)) / step).to_integral_value(ROUND_CEILING) * step
        return str(most) if needed > parse(most) else canonical(needed, like=usual)


def pod_sizes(bounds: Mapping[str, Any]) -> PodSizes:
    """What a class says of pods."""
    defaults = allotment.container_defaults(bounds)
    return PodSizes(
        allotment.pod_bounds(bounds),
        {name: request for name, request, _ in defaults if request},
        {name: limit for name, _, limit in defaults if limit},
    )


def _more(one: Any, other: Any, times: str = "1") -> bool:
    """Whether that is more than so many times the other; what is missing or no quantity is neither more nor less."""
    try:
        return one is not None and other is not None and parse(one) > parse(other) * max(parse(times), Decimal(1))
    except InvalidQuantityError:
        return False
