"""The client of a tenant's slurmrestd, which it reaches through the service proxy of the tenant's API server.

    controller ──TLS──> plane's API server ──proxy──> slurmrestd ──> slurmctld
                        (our certificate)             (our token of a few minutes)

Every call has a deadline and a limit for its answer, which counts against the plane's turn. Only a refused token is retried.
Every failure is a SlurmError, so no caller ever gets an incomplete view. Names are put into paths only if they need no quoting.
Only `parse` reads answers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from bulkhead.kube.connection import Answer
from bulkhead.kube.errors import KubeError, TooLarge
from controller.inside.calls import Plane
from controller.slurm.answers import parse, wire
from controller.slurm.answers.accounting import Records, parse_records
from controller.slurm.answers.parse import SlurmAnswerError, TooManyError
from controller.slurm.answers.view import SlurmView
from controller.slurm.client.tokens import TokenSource
from controller.slurm.spec import NAMESPACE, SLURMRESTD, SLURMRESTD_PORT

T = TypeVar("T")
API: Final = "v0.0.45"
PROXY: Final = f"/api/v1/namespaces/{NAMESPACE}/services/http:{SLURMRESTD}:{SLURMRESTD_PORT}/proxy"
_REQUEST_DEADLINE_SECONDS: Final = 10.0
_MIB: Final = 1024 * 1024
_DATABASE_BYTES: Final = 4 * _MIB
_JOBS_BYTES: Final = 16 * _MIB
_NODES_BYTES: Final = 8 * _MIB
# A job record takes a few kilobytes: if there are more jobs than this, only their counts are read.
MOST_JOBS_READ: Final = 2000
_REMOVE: Final = "remove those that are not needed (sacctmgr show qos, show user, show assoc account=users; then delete)"
_SIGNAL: Final = re.compile(r"[A-Z][A-Z0-9]{1,7}|[1-9][0-9]?")
_JOB: Final = re.compile(r"[1-9][0-9]{0,9}(_[0-9]{1,10})?")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,255}")


class SlurmError(Exception):
    """The cluster did not answer, or refused a request; the text says which."""


class SlurmUnreachable(SlurmError):  # noqa: N818 - a state, not a fault of ours
    """No answer: the state of the cluster is unknown, and requests must not be taken as done."""


class SlurmTooLarge(SlurmUnreachable):
    """The answer has more bytes than are read."""


class SlurmRefused(SlurmError):  # noqa: N818 - an answer
    """slurmrestd or slurmctld refused a request."""


class SlurmRest:
    """Talks to one tenant's slurmrestd."""

    def __init__(self, plane: Plane, tokens: TokenSource, *, base: str = PROXY, jobs_read: int = MOST_JOBS_READ) -> None:
        self._plane = plane
        self._tokens = tokens
        self._base = base
        self._jobs_read = jobs_read

    async def view(self) -> SlurmView:
        """Nodes, jobs and counts; jobs only if there are not too many to read."""
        pending, running = self._parsed(parse.parse_diag, await self._call("GET", "diag/"))
        nodes = self._parsed(parse.parse_nodes, await self._call("GET", "nodes/", max_body=_NODES_BYTES))
        self._hold(sum(map(parse.weight_of_node, nodes)))
        if pending + running > self._jobs_read:
            return SlurmView(nodes=nodes, jobs=None, pending=pending, running=running)
        try:
            data = await self._call("GET", "jobs/", max_body=_JOBS_BYTES)
        except SlurmTooLarge:
            # slurmctld keeps the records of jobs that have ended for a while, and counts none of them.
            return SlurmView(nodes=nodes, jobs=None, pending=pending, running=running)
        jobs = self._parsed(parse.parse_jobs, data)
        self._hold(sum(map(parse.weight_of_job, jobs)))
        waiting = sum(job.copies for job in jobs if job.pending)
        if sum(job.pending or job.active for job in jobs) > self._jobs_read:
            # There are more jobs now than slurmctld counted a moment ago.
            return SlurmView(nodes=nodes, jobs=None, pending=waiting, running=sum(job.active for job in jobs))
        return SlurmView(nodes=nodes, jobs=jobs, pending=waiting, running=sum(job.active for job in jobs))

    async def drain(self, node: str, reason: str) -> None:
        """Let no new job start on a node."""
        await self._update_node(node, {"state": ["DRAIN"], "reason": reason})

    async def undrain(self, node: str) -> None:
        """Remove the drain; the rest of the node's state stays."""
        await self._update_node(node, {"state": ["UNDRAIN"]})

    async def down(self, node: str, reason: str) -> None:
        """Take a node down: its jobs end at once, and are requeued if they allow it."""
        await self._update_node(node, {"state": ["DOWN"], "reason": reason})

    async def resume(self, node: str) -> None:
        """Take a node that was down or drained back into service."""
        await self._update_node(node, {"state": ["RESUME"]})

    async def place(self, node: str, topology: str, features: Sequence[str]) -> None:
        """Write a node's place in the network, and its features."""
        body: dict[str, Any] = {"features": list(features), "features_act": list(features)}
        await self._update_node(node, body | ({"topology_str": topology} if topology else {}))

    async def delete_node(self, node: str) -> None:
        """Delete the record of a dynamic node."""
        await self._call("DELETE", f"node/{_segment(node)}")

    async def requeue(self, job: str) -> None:
        """End a job's run and queue it again."""
        path = f"job/{_job(job)}/requeue"
        answer = self._parsed(_requeue, await self._call("GET", path, params={"Incomplete": "true"}))
        failed = next((condition for condition in answer.status if condition.error_code), None)
        if failed is not None:
            raise SlurmRefused(f"requeue of job {job}: {parse.line(failed.error, 200) or failed.error_code}")

    async def signal(self, job: str, signal: str, *, batch: bool) -> None:
        """Send a running job a signal: only to its batch script, or only to its steps, as `sbatch --signal` does."""
        if not _SIGNAL.fullmatch(signal):
            # With a signal that it does not know, slurmrestd would end the job.
            raise SlurmRefused(f"not a signal: {signal[:40]!r}")
        flags = "BATCH_JOB" if batch else "FULL_STEPS_ONLY"
        await self._call("DELETE", f"job/{_job(job)}", params={"signal": signal, "flags": flags})

    async def note(self, job: int, text: str) -> None:
        """Write a job's AdminComment; an empty text removes it."""
        await self._call("POST", f"job/{int(job)}", body={"admin_comment": text})

    async def cancel(self, job: str) -> None:
        """End a job."""
        await self._call("DELETE", f"job/{_job(job)}")

    async def records(self, account: str) -> Records:
        """The QOS and users of slurmdbd, and the associations of an account. Raises SlurmTooLarge if not all can be read."""
        qos = await self._read_database("qos")
        associations = await self._read_database("associations", {"account": account})
        users = await self._read_database("users")
        try:
            return parse_records(qos, associations, users)
        except TooManyError as error:
            raise SlurmTooLarge(f"the accounting database has {error}, too many to read; {_REMOVE}") from error
        except SlurmAnswerError as error:
            raise SlurmRefused(f"slurmdbd: {error}") from error

    async def write_database(self, kind: str, body: Mapping[str, Any]) -> None:
        """Add records to slurmdbd, or change them."""
        await self._call("POST", f"{kind}/", section="slurmdb", body=body)

    async def _read_database(self, kind: str, params: Mapping[str, str] | None = None) -> bytes:
        try:
            data = await self._call("GET", f"{kind}/", params=params, section="slurmdb", max_body=_DATABASE_BYTES)
        except SlurmTooLarge as error:
            words = f"the records of {kind} in the accounting database take more than {_DATABASE_BYTES // _MIB} MiB"
            raise SlurmTooLarge(f"{words}, too many to read; {_REMOVE}") from error
        self._hold(len(data))
        return data

    async def _update_node(self, node: str, body: Mapping[str, Any]) -> None:
        await self._call("POST", f"node/{_segment(node)}", body=body)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        max_body: int = _MIB,
        section: str = "slurm",
    ) -> bytes:
        path = f"{section}/{API}/{path}"
        answer = await self._exchange(method, path, body, params, max_body)
        if answer.status in (401, 511):  # the first comes from slurmrestd, the second from slurmctld behind it
            # The key may have just changed, or the clocks disagree: try once more with a new token.
            self._tokens.renew()
            answer = await self._exchange(method, path, body, params, max_body)
        if answer.status >= 300:
            raise self._failed(f"{method} {path}", answer)
        if method != "GET":
            self._parsed(_plain, answer.data)
        return answer.data

    def _hold(self, size: int) -> None:
        try:
            self._plane.charge(size)
        except KubeError as error:
            raise SlurmUnreachable(f"slurmrestd: {error}") from error

    async def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None, params: Mapping[str, str] | None, max_body: int
    ) -> Answer:
        headers = {"X-SLURM-USER-TOKEN": self._tokens.token(), "Accept": "application/json"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = msgspec.json.encode(body)
        try:
            return await self._plane.exchange(
                method,
                f"{self._base}/{path}",
                params=params,
                body=data,
                headers=headers,
                timeout=_REQUEST_DEADLINE_SECONDS,
                max_body=max_body,
            )
        except TooLarge as error:
            raise SlurmTooLarge(f"slurmrestd: {error}") from error
        except KubeError as error:
            raise SlurmUnreachable(f"slurmrestd: {error}") from error

    def _failed(self, call: str, answer: Answer) -> SlurmError:
        """The error for an error status: the proxy's own answers are Status objects, Slurm's answers have a list of errors."""
        try:
            found = msgspec.json.decode(answer.data)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            found = None
        if isinstance(found, dict) and found.get("kind") == "Status":
            return SlurmUnreachable(f"slurmrestd: {parse.line(str(found.get('message') or answer.status), 200)}")
        try:
            self._parsed(_plain, answer.data)
        except SlurmError as error:
            return SlurmRefused(f"{call}: HTTP {answer.status}: {error}")
        return SlurmRefused(f"{call}: HTTP {answer.status}")

    def _parsed(self, read: Callable[[bytes], T], data: bytes) -> T:
        try:
            return read(data)
        except SlurmAnswerError as error:
            raise SlurmRefused(str(error)) from error


def _plain(data: bytes) -> Any:
    return parse.decode(data, wire.PlainAnswer) if data else None


def _requeue(data: bytes) -> Any:
    return parse.decode(data, wire.RequeueAnswer)


def _segment(name: str) -> str:
    """A name as one segment of a path. Proxies on the way decode quoted characters, so names that need quoting are refused."""
    if not _NAME.fullmatch(name) or not name.strip("."):
        raise SlurmRefused(f"not a node's name: {name[:40]!r}")
    return name


def _job(handle: str) -> str:
    """A job's number, or the array and number of a task, as one segment of a path."""
    if not _JOB.fullmatch(handle):
        raise SlurmRefused(f"not a job: {handle[:40]!r}")
    return handle
