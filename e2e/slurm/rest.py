"""slurmrestd of a tenant, reached as its users reach it from outside: through the plane's API, with a token of Slurm's own.

A missing answer is an error. An HTTP status is a value, because the tests examine refusals.
"""

import http.client
import json
from dataclasses import dataclass
from typing import Any

from e2e import commands, machine
from e2e.api import Api, Obj
from e2e.slurm.clusters import Cluster

VERSION = "v0.0.45"
# slurmrestd itself answers 401; if slurmctld rejects the token, the answer is 511.
REFUSED = frozenset({401, 511})
PROXY = "/api/v1/namespaces/slurm/services/http:slurmrestd:6820/proxy"


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of one call."""

    status: int
    body: Any


def token(cluster: Cluster, user: str, *, lifetime: str = "10m") -> str:
    """A token from the command line, as an admin issues it."""
    words = ("slurm", "token", cluster.name, "--user", user, "--lifetime", lifetime)
    return commands.bulkhead(*words, kubeconfig=machine.KUBECONFIG).out.strip().partition("=")[2]


def call(
    api: Api, path: str, bearer: str | None, *, method: str = "GET", body: Obj | None = None, user: str | None = None
) -> Answer:
    """One call of slurmrestd through the service proxy of an API server."""
    headers = {"Accept": "application/json"}
    if bearer is not None:
        headers["X-SLURM-USER-TOKEN"] = bearer
    if user is not None:
        headers["X-SLURM-USER-NAME"] = user
    if body is not None:
        headers["Content-Type"] = "application/json"
    connection = api.connect(timeout=30.0)
    try:
        connection.request(method, PROXY + path, body=None if body is None else json.dumps(body), headers=headers)
        response = connection.getresponse()
        data = response.read()
    except (OSError, http.client.HTTPException) as exc:
        raise AssertionError(f"{method} {path}: no answer: {type(exc).__name__}: {exc}") from exc
    finally:
        connection.close()
    try:
        return Answer(response.status, json.loads(data))
    except ValueError:
        return Answer(response.status, data.decode("utf-8", "replace"))


def slurm(cluster: Cluster, path: str, bearer: str | None, **more: Any) -> Answer:
    """One call under `/slurm/<version>`."""
    return call(cluster.api, f"/slurm/{VERSION}{path}", bearer, **more)
