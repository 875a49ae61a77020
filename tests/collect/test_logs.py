"""Logs in an archive: the newest lines, those of the tenant alone, no audit trail. One HTTP server, no cluster."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bulkhead.kube.client import Client
from bulkhead.kube.kubeconfig import KubeConfig
from tests.api.test_auditevents import line as audit_event
from workstation.collect import gather, sources
from workstation.collect.archive import Collected
from workstation.collect.gather import Gatherer, NotReadError

TIME = "2026-11-29T10:00:00.000000001Z"


def logged(message: str, **fields: Any) -> bytes:
    return f"{TIME} {json.dumps({'time': TIME, 'level': 'info', 'message': message} | fields)}\n".encode()


LINES: list[tuple[bytes, bool]] = [
    (logged("tenant ready", tenant="a"), True),
    (logged("tenant ready", tenant="ab"), False),
    (logged("tenant a is not meant", tenant="b"), False),
    (logged("a message with the letter"), False),
    (logged("deleting orphan", object="Secret bh-a/x"), True),
    (logged("device-hours not shown", namespace="bh-a-work"), True),
    (logged("deleting orphan", object="Secret bh-a-b/x"), False),
    (logged("deleting orphan", object="Secret bh-ab/x"), False),
    (logged("of another tenant, about bh-a", tenant="b"), False),
    (logged("a field of another type, in bh-a", tenant=7), True),
    (f"{TIME} panic: in namespace bh-a\n".encode(), True),
    (f"{TIME} Traceback of a program\n".encode(), False),
    (b"\xff\n", False),
    (b"\n", False),
    (b"[" * 100_000 + b"\n", False),
]


def test_the_controllers_lines_are_those_of_the_tenant_alone() -> None:
    log = b"".join(line for line, _ in LINES)
    assert sources.log_of_tenant(log, "a") == b"".join(line for line, kept in LINES if kept)


def test_a_carriage_return_begins_no_line() -> None:
    assert sources.log_of_tenant(b"x\rbh-a\ny\n", "a") == b"x\rbh-a\n"


def test_audit_events_are_left_out_and_counted() -> None:
    event = TIME.encode() + b" " + audit_event(1)
    assert sources.platform_lines(event + logged("kept") + event) == (logged("kept"), 2)
    assert sources.platform_lines(b"") == (b"", 0)


@contextlib.asynccontextmanager
async def host(logs: dict[str, bytes]) -> AsyncIterator[Client]:
    """A host's API server with a pod of the plane, one of the controller, and these logs of theirs; it has nothing else."""

    def pod(namespace: str, name: str, container: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": namespace}, "spec": {"containers": [{"name": container}]}}

    def listing(*items: dict[str, Any]) -> web.Response:
        return web.json_response(
            {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": [*items]}
        )

    async def plane(_: web.Request) -> web.Response:
        return listing(pod("bh-a", "plane-0", "kube-apiserver"))

    async def controller(_: web.Request) -> web.Response:
        return listing(pod("bulkhead-system", "controller-0", "controller"))

    async def log(request: web.Request) -> web.Response:
        lines = logs[request.match_info["pod"]].splitlines(keepends=True)[-int(request.query["tailLines"]) :]
        return web.Response(body=b"".join(lines)[: int(request.query["limitBytes"])])

    app = web.Application()
    app.add_routes(
        [
            web.get("/api/v1/pods", controller),
            web.get("/api/v1/namespaces/bh-a/pods", plane),
            web.get("/api/v1/namespaces/{namespace}/pods/{pod}/log", log),
        ]
    )
    async with TestServer(app) as server:
        config = KubeConfig(server=f"http://127.0.0.1:{server.port}")
        async with Client(config, user_agent="tests", field_manager="tests") as client:
            yield client


async def collected(client: Client) -> Collected:
    async def none() -> Any:
        raise NotReadError("not asked")

    return await Gatherer(client, "a", lambda _: None, none, none).run(20)


OURS, THEIRS = logged("ours", tenant="a"), logged("theirs", tenant="alpha")
SERVER, CONTROLLER = "logs/bh-a/plane-0/kube-apiserver.log", "logs/controller/controller-0/controller.log"


async def test_an_archive_has_what_it_may_have_of_each_log() -> None:
    event = TIME.encode() + b" " + audit_event(1)
    async with host({"plane-0": logged("one") + event + logged("two"), "controller-0": OURS + THEIRS}) as client:
        found = await collected(client)
    assert found.files[SERVER] == logged("one") + logged("two")
    assert found.failures[SERVER] == "audit events (1)"
    assert found.files[CONTROLLER] == OURS
    assert CONTROLLER not in found.failures


async def test_of_a_long_log_the_newest_lines_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "_READ_BYTES", 2000)
    monkeypatch.setattr(gather, "_LOG_BYTES", 1000)
    lines = [logged(f"{number:03d}") for number in range(400)]
    async with host({"plane-0": b"".join(lines), "controller-0": OURS}) as client:
        found = await collected(client)
    number = found.files[SERVER].count(b"\n")
    assert 1 < number <= 1000 // len(lines[0])
    assert found.files[SERVER] == b"".join(lines[-number:])
    assert found.failures[SERVER] == f"lines before its newest {number}"
