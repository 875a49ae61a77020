"""Translates the error that ended a reconcile into the words of the status."""

from bulkhead.api.conditions import Reason
from bulkhead.kube.errors import ApiError, Conflict, Forbidden, KubeError, Unavailable, Unprocessable
from controller.refusal import Refusal


def failure_of(error: KubeError | TimeoutError) -> Refusal:
    """The reason and the message for an error."""
    if isinstance(error, Forbidden | Unprocessable | Conflict):
        return Refusal(Reason.HOST_REFUSED, f"the host refused an object: {error}")
    if isinstance(error, Unavailable | TimeoutError):
        return Refusal(Reason.HOST_UNAVAILABLE, f"the host's API did not answer: {error}")
    if isinstance(error, ApiError):
        return Refusal(Reason.HOST_REFUSED, f"the host's API: {error}")
    return Refusal(Reason.HOST_UNAVAILABLE, f"the host's API: {error}")
