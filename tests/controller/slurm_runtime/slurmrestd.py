"""A fake slurmrestd behind a plane's API server: aiohttp on loopback, answers in the shapes of v0.0.45.

It keeps nodes and jobs, checks the token, and can be made silent, slow, broken, too large or absent.
"""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from bulkhead.api.slurmtoken import sign
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.transport import Transport
from controller.slurm.client.rest import PROXY

KEY = b"k" * 32
_ENDPOINTS = b'{"kind": "Status", "apiVersion": "v1", "message": "no endpoints available for service", "code": 503}'
_REFUSED = b'{"nodes": [], "errors": [{"error_number": 1007, "error": "Protocol authentication error"}]}'
MOODS = {
    "gone": (503, _ENDPOINTS),
    "garbage": (200, b"<html>no</html>"),
    "huge": (200, b'{"nodes": "' + b"x" * 30_000_000 + b'"}'),
    "errors": (200, b'{"nodes": [], "jobs": [], "errors": [{"error": "Unable to contact slurm controller"}]}'),
    "failing": (500, _REFUSED),
}


def number(value: int | None) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def node(name: str, *states: str, reason: str = "", gpus: int = 2, used: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "state": list(states or ("IDLE", "DYNAMIC_NORM")),
        "reason": reason,
        "cpus": 8,
        "alloc_cpus": 8 if used else 0,
        "real_memory": 4096,
        "alloc_memory": 0,
        "tres": f"cpu=8,mem=4G,billing=8,gres/gpu={gpus},gres/gpu:h100={gpus}",
        "tres_used": f"cpu=8,gres/gpu={used}" if used else "",
        "partitions": ["gpu"],
        "features": ["gpu"],
        "last_busy": number(1_780_315_200),
        "slurmd_start_time": number(1_780_315_100),
        "architecture": "x86_64",
        "cpu_load": 3,
    }


def job(job_id: int, state: str = "PENDING", **more: Any) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "job_state": [state],
        "state_reason": "Resources",
        "partition": "gpu",
        "nodes": "",
        "node_count": number(1),
        "cpus": number(1),
        "tres_req_str": "cpu=1,mem=1M,node=1,billing=1",
        "priority": number(1),
        "submit_time": number(1_780_315_000),
        "name": 'x"; rm -rf /\n' + "x" * 50,
        "requeue": True,
        "batch_flag": True,
    } | more


@dataclass
class FakeSlurmrestd:
    """The state, and what was called."""

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    jobs: dict[int, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    mood: str = "well"
    key: bytes = KEY
    unauthorized: int = 0
    # What was sent to which job: signal and flags, in order.
    signals: list[tuple[int, str, str]] = field(default_factory=list)
    # Records of slurmdbd by kind, and what was written to it.
    database: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    written: list[tuple[str, Any]] = field(default_factory=list)
    stuck: asyncio.Event = field(default_factory=asyncio.Event)

    def routes(self) -> list[web.RouteDef]:
        base = f"{PROXY}/slurm/v0.0.45"
        return [
            web.get(f"{base}/diag/", self._guarded(self._diag)),
            web.get(f"{base}/nodes/", self._guarded(self._nodes)),
            web.get(f"{base}/jobs/", self._guarded(self._jobs)),
            web.post(f"{base}/node/{{name}}", self._guarded(self._update)),
            web.delete(f"{base}/node/{{name}}", self._guarded(self._delete_node)),
            web.get(f"{base}/job/{{job}}/requeue", self._guarded(self._requeue)),
            web.delete(f"{base}/job/{{job}}", self._guarded(self._cancel)),
            web.post(f"{base}/job/{{job}}", self._guarded(self._change)),
            web.get(f"{PROXY}/slurmdb/v0.0.45/{{kind}}/", self._guarded(self._records)),
            web.post(f"{PROXY}/slurmdb/v0.0.45/{{kind}}/", self._guarded(self._write)),
        ]

    def called(self, method: str, end: str) -> list[Any]:
        return [body for verb, path, body in self.calls if verb == method and path.endswith(end)]

    def _guarded(self, handler: Any) -> Any:
        async def guarded(request: web.Request) -> web.StreamResponse:
            body = await request.json() if request.can_read_body else None
            self.calls.append((request.method, request.path.removeprefix(f"{PROXY}/slurm/v0.0.45"), body))
            if self.mood == "silent":
                await self.stuck.wait()
            if self.mood in MOODS:
                status, data = MOODS[self.mood]
                return web.Response(status=status, body=data, content_type="application/json")
            if not self._known(request.headers.get("X-SLURM-USER-TOKEN", "")):
                self.unauthorized += 1
                return web.json_response({"errors": [{"error": "Authentication failure"}]}, status=401)
            answer = handler(request, body)
            assert isinstance(answer, dict)
            return web.json_response({"meta": {}, "errors": [], "warnings": []} | answer)

        return guarded

    def _known(self, token: str) -> bool:
        _, _, rest = token.partition(".")
        claims = rest.partition(".")[0]
        found = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)) or b"{}")
        if not found or token != sign(self.key, found["sun"], issued=found["iat"], expires=found["exp"]):
            return False
        return found["sun"] == "slurm" and found["exp"] > found["iat"] > datetime(2020, 1, 1, tzinfo=UTC).timestamp()

    def _diag(self, _: web.Request, __: Any) -> dict[str, Any]:
        states = [each["job_state"][0] for each in self.jobs.values()]
        return {"statistics": {"jobs_pending": states.count("PENDING"), "jobs_running": states.count("RUNNING")}}

    def _nodes(self, _: web.Request, __: Any) -> dict[str, Any]:
        return {"nodes": list(self.nodes.values()), "last_update": number(1)}

    def _jobs(self, _: web.Request, __: Any) -> dict[str, Any]:
        return {"jobs": list(self.jobs.values()), "last_update": number(1)}

    def _update(self, request: web.Request, body: Any) -> dict[str, Any]:
        found = self.nodes[request.match_info["name"]]
        states = set(found["state"])
        for state in body["state"]:
            match state:
                case "UNDRAIN" | "RESUME":
                    states.discard("DRAIN")
                    found["reason"] = ""
                case "DOWN":
                    states = {"DOWN", *(states - {"IDLE", "ALLOCATED", "MIXED"})}
                case _:
                    states.add(state)
        found["state"] = sorted(states)
        found["reason"] = body.get("reason", found["reason"])
        return {}

    def _delete_node(self, request: web.Request, _: Any) -> dict[str, Any]:
        del self.nodes[request.match_info["name"]]
        return {}

    def _records(self, request: web.Request, _: Any) -> dict[str, Any]:
        kind, account = request.match_info["kind"], request.query.get("account")
        found = [record for record in self.database.get(kind, []) if account in (None, record.get("account"))]
        return {kind: found}

    def _write(self, request: web.Request, body: Any) -> dict[str, Any]:
        self.written.append((request.match_info["kind"], body))
        return {}

    def _meant(self, handle: str) -> list[dict[str, Any]]:
        """The jobs that a request is about, as Slurm takes it: the number of an array means all of its tasks."""
        array, _, task = handle.partition("_")
        tasks = [found for found in self.jobs.values() if found.get("array_job_id") == number(int(array))]
        if task:
            return [found for found in tasks if found["array_task_id"] == number(int(task))]
        return tasks or [found for found in self.jobs.values() if found["job_id"] == int(array)]

    def _requeue(self, request: web.Request, _: Any) -> dict[str, Any]:
        answers = []
        for found in self._meant(request.match_info["job"]):
            answer = {"job_id": found["job_id"], "error_code": 0, "error": "No error"}
            if found["requeue"]:
                found |= {"job_state": ["PENDING"], "nodes": ""}
            else:
                answer |= {"error_code": 2015, "error": "Requested operation is presently disabled"}
            answers.append(answer)
        return {"status": answers}

    def _change(self, request: web.Request, body: Any) -> dict[str, Any]:
        self.jobs[int(request.match_info["job"])] |= body
        return {}

    def _cancel(self, request: web.Request, _: Any) -> dict[str, Any]:
        signal = request.query.get("signal")
        for found in self._meant(request.match_info["job"]):
            if signal is not None:
                self.signals.append((found["job_id"], signal, request.query.get("flags", "")))
            else:
                del self.jobs[found["job_id"]]
        return {}


@contextlib.asynccontextmanager
async def served(fake: FakeSlurmrestd, *, seconds: float = 5.0) -> AsyncIterator[tuple[FakeSlurmrestd, Transport]]:
    """The slurmrestd on loopback, and a way to it."""
    application = web.Application()
    application.add_routes(fake.routes())
    server = TestServer(application)
    await server.start_server()
    config = KubeConfig(server=f"http://{server.host}:{server.port}")
    async with Transport(config, user_agent="tests", timeout=seconds, max_body=1_000_000) as transport:
        yield fake, transport
    fake.stuck.set()
    await server.close()
