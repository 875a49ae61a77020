"""Reads in a plane, with a user's own rights, what their GPUs do and what their Slurm jobs wait for.

    nodes that hold own pods ── /api/v1/nodes/NAME/proxy/metrics/gpus ──> owngpus
    SLURM_JWT, or the cluster's key if the user may read it ──> a token ──> slurmrestd, through the API server ──> ownjobs

Service `bulkhead-gpu-metrics` is of no use here: the API server proxies to addresses of the plane's pods alone, and removes the
caller's credentials. A virtual node's kubelet is asked instead, for which the API server judges the right `nodes/proxy`. Every
read has a deadline and a bound, and each reason for which something is missing is a text for the user.
"""

import asyncio
import base64
import binascii
import os
import re
import time
from collections.abc import Collection
from typing import Final
from urllib.parse import quote

from bulkhead.api import names
from bulkhead.api.slurmtoken import sign
from bulkhead.gpus.exposition import Sample
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.connection import Answer
from bulkhead.kube.errors import Forbidden, KubeError, NotFound, NotServed, TooLarge, from_response
from workstation.cli.output import plain
from workstation.cli.quotas import owngpus, ownjobs
from workstation.cli.quotas.owngpus import Uses
from workstation.cli.quotas.ownjobs import Jobs, JobsAnswerError

# A plane with more nodes than this has its first ones shown.
MAX_NODES: Final = 128
_NODES_AT_ONCE: Final = 8
_NODE_SECONDS: Final = 5.0
_ALL_NODES_SECONDS: Final = 30.0
_JOBS_SECONDS: Final = 10.0
_MAX_JOBS_BYTES: Final = 16 * 1024 * 1024
_TOKEN_SECONDS: Final = 300
_TOKEN: Final = "SLURM_JWT"  # noqa: S105 - the name of a variable, which Slurm's own clients read too
_TOKEN_SHAPE: Final = re.compile(r"[A-Za-z0-9_.=-]{1,4096}")
_JOBS: Final = f"/api/v1/namespaces/{names.SLURM_NAMESPACE}/services/http:slurmrestd:6820/proxy/slurm/v0.0.45/jobs/"
_NOT_MEASURED: Final = "the platform does not measure the use of GPUs"


async def gpu_uses(client: Client, nodes: Collection[str]) -> Uses:
    """What the devices of own pods on these nodes do."""
    asked = sorted(nodes)[:MAX_NODES]
    left = len(nodes) - len(asked)
    found: list[Sample] = []
    reasons: list[str] = []
    places = asyncio.Semaphore(_NODES_AT_ONCE)

    async def one(node: str) -> None:
        path = f"/api/v1/nodes/{quote(node, safe='')}/proxy/metrics/gpus"
        async with places:
            if reasons and not found:
                return  # What refuses the first nodes refuses all.
            try:
                answer = await client.transport.request(
                    "GET", path, accept="text/plain", timeout=_NODE_SECONDS, max_body=owngpus.MAX_PAGE_BYTES
                )
            except KubeError as error:
                reasons.append(_why(error))
                return
        found.extend(owngpus.samples(answer))

    try:
        async with asyncio.timeout(_ALL_NODES_SECONDS):
            await asyncio.gather(*map(one, asked))
    except TimeoutError:
        reasons.append(f"not all nodes answered within {_ALL_NODES_SECONDS:g} s")
    if left:
        reasons.append(f"{left} of {len(nodes)} nodes were not asked")
    return Uses(owngpus.uses(found), reasons[0] if reasons else "")


def _why(error: KubeError) -> str:
    if isinstance(error, NotServed):
        return _NOT_MEASURED
    if isinstance(error, Forbidden):
        return "you may not read nodes/proxy in this cluster; its admin can grant that"
    return plain(error)


async def slurm_jobs(client: Client) -> Jobs:
    """The jobs of the plane's Slurm cluster."""
    try:
        token = await _token(client)
        headers = {"X-SLURM-USER-TOKEN": token, "Accept": "application/json"}
        answer = await client.transport.exchange("GET", _JOBS, headers=headers, timeout=_JOBS_SECONDS, max_body=_MAX_JOBS_BYTES)
        if answer.status >= 400:
            raise _refusal(answer)
        return Jobs(await asyncio.to_thread(ownjobs.parse, answer.data))
    except TooLarge:
        return Jobs(missing=f"they take more than {_MAX_JOBS_BYTES >> 20} MiB; squeue on a login node has them")
    except (KubeError, JobsAnswerError, _NoTokenError) as error:
        return Jobs(missing=plain(error))


def _refusal(answer: Answer) -> Exception:
    """The error for an answer with an error status: of the API server, or of slurmrestd behind it."""
    error = from_response(answer.status, answer.data, answer.headers)
    # 401 is slurmrestd's, 511 slurmctld's behind it; the API server gives its own refusals a reason.
    if answer.status in {401, 511} and not error.reason:
        return _NoTokenError(
            f"slurmrestd does not accept the token: type `scontrol token` on a login node, then: export {_TOKEN}=…"
        )
    return error


class _NoTokenError(Exception):
    """There is no token for slurmrestd; the text says how to get one."""


async def _token(client: Client) -> str:
    given = os.environ.get(_TOKEN, "")
    if given:
        if not _TOKEN_SHAPE.fullmatch(given):
            raise _NoTokenError(f"{_TOKEN} is not a token")
        return given
    try:
        secret = await client.get(kinds.SECRETS, names.SLURM_KEYS, names.SLURM_NAMESPACE)
        key = base64.b64decode(secret["data"][names.SLURM_TOKEN_KEY], validate=True)
    except (Forbidden, NotFound, KeyError, TypeError, binascii.Error) as error:
        raise _NoTokenError(
            f"no token for slurmrestd: on a login node type `scontrol token`, then here: export {_TOKEN}=…"
        ) from error
    now = int(time.time())
    return sign(key, "slurm", issued=now, expires=now + _TOKEN_SECONDS)


def has_slurm(namespaces: Collection[str]) -> bool:
    """Whether to ask for jobs: pods of a Slurm cluster were seen, or the user has a token for one."""
    return names.SLURM_NAMESPACE in namespaces or bool(os.environ.get(_TOKEN))
