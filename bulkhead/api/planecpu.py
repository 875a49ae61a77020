"""The CPU limit of a component of a plane, if neither class nor Tenant sets one. Pure."""

import contextlib
import math
from typing import Final

from bulkhead.api.quantity import InvalidQuantityError, parse

# A container may use this many times the CPU that it requests, in whole cores, and at least what its start keeps busy.
CPU_BURST: Final = 40
_STARTING_CORES: Final = {"apiserver": 2}


def usual_cpu_limit(component: str, request: str) -> str:
    """The CPU limit of a component that requests this much, if neither class nor Tenant sets one.

    It is whole cores: as many threads as Go runs at once, so that a component is not throttled while it starts.
    """
    least = _STARTING_CORES.get(component, 1)
    with contextlib.suppress(InvalidQuantityError):
        return str(max(least, math.ceil(parse(request) * CPU_BURST)))
    return str(least)
