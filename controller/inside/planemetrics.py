"""The one way in which the controller reads the metrics of a plane's API server.

The path is fixed; the answer is bounded in bytes and time, and charged to the plane's budget while it is held.
"""

from typing import Final

from bulkhead.kube.errors import KubeError
from controller.inside.access import PlaneAccess
from controller.inside.budget import Budget

METRICS_ANSWER_BYTES: Final = 16 << 20
_PATH: Final = "/metrics"
_REQUEST_DEADLINE_SECONDS: Final = 10.0


class UnreadError(Exception):
    """The metrics could not be read; the message says why."""


class SilentError(UnreadError):
    """The plane has not answered before, so it was not asked."""


async def read_metrics(planes: PlaneAccess, budget: Budget, tenant: str) -> bytes:
    """The text of a plane's metrics, to be decoded before the caller awaits anything. Raises UnreadError."""
    try:
        async with budget.turn(tenant, _REQUEST_DEADLINE_SECONDS) as turn:
            plane = planes.plane(turn)
            if plane is None:
                raise SilentError("the plane's API server does not answer")
            seconds = _REQUEST_DEADLINE_SECONDS
            answer = await plane.exchange("GET", _PATH, timeout=seconds, max_body=METRICS_ANSWER_BYTES)
    except (KubeError, TimeoutError) as error:
        raise UnreadError(f"the plane's {_PATH} could not be read: {error}") from None
    if answer.status != 200:
        raise UnreadError(f"the plane's {_PATH} answered with status {answer.status}")
    return answer.data
