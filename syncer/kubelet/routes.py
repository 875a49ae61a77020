"""Which requests of the kubelet's API are known, and what each becomes at the host API. Pure.

Paths are matched whole, segment by segment; nothing is a prefix or a suffix. The kubelet's query names (`input`, `output`,
`error`) are rewritten to the API server's (`stdin`, `stdout`, `stderr`), every parameter is on a list, and a parameter
that may stand once is refused when it stands twice. What is not listed does not exist.

    /containerLogs/{namespace}/{pod}/{container}          GET
    /exec|attach/{namespace}/{pod}[/{uid}]/{container}    GET, POST with upgrade
    /portForward/{namespace}/{pod}[/{uid}]                GET, POST with upgrade
    /metrics[/cadvisor|resource|probes|gpus]              GET, of the node by which the API server's proxy was asked
    /healthz                                              GET
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from syncer.http1 import BadRequestError, Request
from syncer.kubelet.exposition import PAGES, Page

# The pages below `/metrics`: those of the pods, and that of their GPUs.
NodePage: TypeAlias = Page | Literal["gpus"]
NODE_PAGES: Final[tuple[NodePage, ...]] = (*PAGES, "gpus")
Verb = Literal["healthz", "log", "exec", "attach", "portforward", "metrics"]

SEGMENT: Final = re.compile(r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\Z")
_PROXIED: Final = re.compile(r"^/api/v1/nodes/(?:https:)?(?P<node>[^/:]{1,253})(?::[0-9]{0,5})?/proxy/")
_UID: Final = re.compile(r"^[A-Za-z0-9-]{1,64}\Z")
_FLAG: Final = frozenset({"true", "false", "1", "0"})
_COMMAND_LIMIT: Final = 256
_PORTS_LIMIT: Final = 64
_NUMBER: Final = re.compile(r"^[0-9]{1,18}\Z")
_TIME: Final = re.compile(r"^[0-9TZtz:.+-]{10,40}\Z")


@dataclass(frozen=True, slots=True)
class Route:
    """One request understood: what is wanted of which virtual pod, with the parameters for the host API."""

    verb: Verb
    namespace: str = ""
    pod: str = ""
    uid: str = ""
    container: str = ""
    params: tuple[tuple[str, str], ...] = ()
    # Of `metrics`: the page, and the node that it is about.
    page: NodePage = ""
    node: str = ""


def route(request: Request) -> Route:
    """Understand a request, or raise BadRequestError with the status to answer."""
    parts = request.path.split("/")[1:]
    if parts == ["healthz"] and request.method in {"GET", "HEAD"} and not request.query:
        return Route("healthz")
    head, rest = parts[0], parts[1:]
    if head == "metrics" and len(rest) < 2 and request.method == "GET" and not request.query:
        return _metrics(request, rest[0] if rest else "")
    if head == "containerLogs" and len(rest) == 3 and request.method == "GET":
        return _checked(Route("log", rest[0], rest[1], "", rest[2], _log_params(request)))
    if head in {"exec", "attach"} and len(rest) in {3, 4}:
        _must_upgrade(request)
        uid = rest[2] if len(rest) == 4 else ""
        verb: Verb = "exec" if head == "exec" else "attach"
        return _checked(Route(verb, rest[0], rest[1], uid, rest[-1], _stream_params(request, with_command=verb == "exec")))
    if head == "portForward" and len(rest) in {2, 3}:
        _must_upgrade(request)
        uid = rest[2] if len(rest) == 3 else ""
        return _checked(Route("portforward", rest[0], rest[1], uid, "", _port_params(request)))
    raise BadRequestError(404, "not found")


def _metrics(request: Request, asked: str) -> Route:
    """All virtual nodes have one address: which one is meant stands in what the API server's proxy says of its own request."""
    about = next((page for page in NODE_PAGES if page == asked), None)
    if about is None or request.path.endswith("/"):
        raise BadRequestError(404, "not found")
    found = _PROXIED.match(request.headers.get("x-forwarded-uri", ""))
    if found is None or not SEGMENT.match(found["node"]):
        raise BadRequestError(400, "metrics of a node are at /api/v1/nodes/NAME/proxy/metrics of the cluster's API server")
    return Route("metrics", page=about, node=found["node"])


def _must_upgrade(request: Request) -> None:
    if request.method not in {"GET", "POST"}:
        raise BadRequestError(405, "only GET and POST")
    if not request.wants_upgrade():
        raise BadRequestError(400, "an upgrade is required")
    if request.headers["upgrade"].lower() not in {"websocket", "spdy/3.1"}:
        raise BadRequestError(400, "upgrade: only websocket and SPDY/3.1")


def _checked(found: Route) -> Route:
    names = [found.namespace, found.pod] + ([found.container] if found.verb != "portforward" else [])
    if not all(SEGMENT.match(name) for name in names) or (found.uid and not _UID.match(found.uid)):
        raise BadRequestError(400, "path: not a name")
    return found


def _once(request: Request, allowed: frozenset[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in request.query:
        if name not in allowed:
            raise BadRequestError(400, f"query: {name[:40]} is not known")
        if name in found:
            raise BadRequestError(400, f"query: {name} twice")
        found[name] = value
    return found


_LOG_FLAGS: Final = ("follow", "previous", "timestamps")
_LOG_NUMBERS: Final = ("sinceSeconds", "tailLines", "limitBytes")


def _log_params(request: Request) -> tuple[tuple[str, str], ...]:
    found = _once(request, frozenset({*_LOG_FLAGS, *_LOG_NUMBERS, "sinceTime", "stream"}))
    for name in _LOG_FLAGS:
        if found.get(name, "false") not in _FLAG:
            raise BadRequestError(400, f"query: {name} must be true or false")
    for name in _LOG_NUMBERS:
        if name in found and not _NUMBER.match(found[name]):
            raise BadRequestError(400, f"query: {name} must be a number")
    if "sinceTime" in found and not _TIME.match(found["sinceTime"]):
        raise BadRequestError(400, "query: sinceTime must be a time")
    if found.get("stream", "All") not in {"All", "Stdout", "Stderr"}:
        raise BadRequestError(400, "query: stream must be All, Stdout or Stderr")
    return tuple(sorted(found.items()))


_STREAM_NAMES: Final = {"input": "stdin", "output": "stdout", "error": "stderr", "tty": "tty"}


def _stream_params(request: Request, *, with_command: bool) -> tuple[tuple[str, str], ...]:
    commands = [value for name, value in request.query if name == "command"]
    if (commands and not with_command) or (with_command and not commands) or len(commands) > _COMMAND_LIMIT:
        raise BadRequestError(400, "query: command is missing, not allowed here, or too long")
    others = Request(
        request.method, request.path, tuple(pair for pair in request.query if pair[0] != "command"), request.headers
    )
    found = _once(others, frozenset(_STREAM_NAMES))
    if not set(found.values()) <= _FLAG:
        raise BadRequestError(400, "query: not a flag")
    wanted = {ours: "true" if found.get(theirs, "0") in {"1", "true"} else "false" for theirs, ours in _STREAM_NAMES.items()}
    if wanted["tty"] == "true":
        # A terminal has one stream for both. kubectl without a terminal requests both, and a kubelet refuses that.
        wanted["stderr"] = "false"
    return (*wanted.items(), *(("command", command) for command in commands))


def _port_params(request: Request) -> tuple[tuple[str, str], ...]:
    # Over SPDY the ports travel in stream headers; over websocket in the query.
    ports = [value for name, value in request.query if name in {"port", "ports"}]
    if len(ports) != len(request.query) or len(ports) > _PORTS_LIMIT:
        raise BadRequestError(400, "query: only ports are known")
    flat = [port for value in ports for port in value.split(",")]
    if not all(_NUMBER.match(port) and 1 <= int(port) <= 65535 for port in flat):
        raise BadRequestError(400, "query: not a port")
    return tuple(("ports", port) for port in flat)
