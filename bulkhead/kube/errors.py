# ruff: noqa: N818 -- the tree reads as sentences: except NotFound
"""Everything that this package raises.

    KubeError
    ├── ApiError(status, reason, message, causes)   the server answered, or could not be reached
    │   ├── Unauthorized      401
    │   ├── Forbidden         403
    │   ├── NotFound          404
    │   │   └── NotServed     404 that names no object: the kind is not served
    │   ├── AlreadyExists     409, reason AlreadyExists
    │   ├── Conflict          409, any other reason
    │   ├── Gone              410, list or watch again from the start
    │   ├── Unprocessable     422, `causes` name the fields
    │   ├── Throttled         429, `retry_after` in seconds
    │   └── Unavailable       502, 503, 504, and 0 when no connection could be made or it broke
    ├── ConfigError           a kubeconfig that is broken or asks for something we refuse
    ├── ProtocolError         an answer that Kubernetes does not give: redirect, garbage, wrong shape
    ├── TooLarge              an answer, a line or a list beyond its bound
    └── Timeout               our own deadline passed

A 400, 405, 415 or 500 is a bare ApiError. Bodies that are not a Status object are never quoted: they may hold secrets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bulkhead.api.untrusted import mapping, mappings, text

_MESSAGE_CHARACTERS = 2000
_MOST_CAUSES = 20
_TEXT_BYTES = 4096
# The one bound on what a server may ask for: with each caller's own spread it is asked again within half a minute.
LONGEST_RETRY_AFTER_SECONDS = 16.0


class KubeError(Exception):
    """Root of the tree."""


class ConfigError(KubeError):
    """The kubeconfig cannot be used."""


class ProtocolError(KubeError):
    """The answer is not what a Kubernetes API server sends."""


class TooLarge(KubeError):
    """A bound on size was passed."""


class Timeout(KubeError):
    """A deadline of ours passed."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that the server complained about."""

    field: str
    reason: str
    message: str


class ApiError(KubeError):
    """The API server refused, or could not be reached (status 0)."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        causes: tuple[Cause, ...] = (),
        *,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{reason or status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes
        self.retry_after = retry_after


class Unauthorized(ApiError):
    """The credentials are not known."""


class Forbidden(ApiError):
    """RBAC or admission refused the request."""


class NotFound(ApiError):
    """The object, or its kind, is not there."""


class NotServed(NotFound):
    """The server has no such kind, or no such path; it may hold the object still."""


class AlreadyExists(ApiError):
    """The name is taken."""


class Conflict(ApiError):
    """The object changed in between, a precondition failed, or another manager owns the field."""


class Gone(ApiError):
    """The resource version is too old: list again."""


class Unprocessable(ApiError):
    """Validation failed; `causes` name the fields."""


class Throttled(ApiError):
    """The server asks to slow down; nothing is retried behind the caller's back."""


class Unavailable(ApiError):
    """The server cannot be reached, or says that it cannot serve now."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Unprocessable,
    429: Throttled,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed in a while: the server is busy, starts again, or has a trouble of its own."""
    if isinstance(error, (Throttled, Unavailable, Timeout, TimeoutError)):
        return True
    return isinstance(error, ApiError) and error.status == 500


def unreachable(message: str) -> Unavailable:
    """Build the error for a connection that could not be made or broke."""
    return Unavailable(0, "Unreachable", message)


def from_response(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> ApiError:
    """Build the error for an answer with an error status."""
    retry_after = _seconds((headers or {}).get("retry-after"))
    try:
        decoded: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        decoded = None
    if not isinstance(decoded, dict) or decoded.get("kind") != "Status":
        kind = NotServed if status == 404 else _BY_STATUS.get(status, ApiError)
        return kind(status, "", _plain_text(status, body), retry_after=retry_after)
    return from_status(decoded, http_status=status, retry_after=retry_after)


def _plain_text(status: int, body: bytes) -> str:
    """What an answer without a Status object says: the health checks that failed, where it lists them, else its first line."""
    lines = [line.strip() for line in body[:_TEXT_BYTES].decode("utf-8", "replace").splitlines() if line.strip()]
    failed = [line.removeprefix("[-]").split(" ")[0] for line in lines if line.startswith("[-]")]
    reported = (
        f"not ready: {', '.join(failed)}" if failed else "".join(char for char in (lines or [""])[0] if char.isprintable())
    )
    return f"HTTP {status}: {reported[:200]}" if reported else f"HTTP {status} without a message"


def from_status(status: Mapping[str, Any], *, http_status: int = 0, retry_after: float | None = None) -> ApiError:
    """Build the error for a Status object, be it a response body or an ERROR event of a watch."""
    code = http_status or (status["code"] if isinstance(status.get("code"), int) else 500)
    reason = _text(status.get("reason"), 100)
    details = mapping(status.get("details"))
    causes = tuple(_cause(cause) for cause in mappings(details.get("causes"), _MOST_CAUSES))
    kind = AlreadyExists if code == 409 and reason == "AlreadyExists" else _BY_STATUS.get(code, ApiError)
    if kind is NotFound and not details.get("name"):
        kind = NotServed
    wait = retry_after if retry_after is not None else _seconds(details.get("retryAfterSeconds"))
    return kind(code, reason, _text(status.get("message"), _MESSAGE_CHARACTERS), causes, retry_after=wait)


def _cause(cause: Mapping[str, Any]) -> Cause:
    return Cause(_text(cause.get("field"), 500), _text(cause.get("reason"), 100), _text(cause.get("message"), 500))


def _text(value: Any, limit: int) -> str:
    found = text(value)
    return found if len(found) <= limit else found[: limit - 1] + "…"


def _seconds(value: Any) -> float | None:
    # Only the seconds form is used by API servers; a hostile value must not park us for long.
    if value is None:
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(seconds, LONGEST_RETRY_AFTER_SECONDS) if seconds > 0 else None
