"""The prober uses the credentials that its parent has now, and not those of the run's begin. No API server."""

import asyncio
from dataclasses import replace

import pytest

from bulkhead.kube.client import Client
from tests.kit.hostileserver import http, serving
from tests.kit.syncerbed import until
from workstation.chaos import measure
from workstation.chaos.measure import Api, measuring

OBJECT = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"probe"}}'
STATUS = b'{"kind":"Status","code":401,"reason":"Unauthorized","message":"the token has ended"}'


async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    """It knows one token."""
    writer.write(http("200 OK", OBJECT) if b"Bearer two" in head else http("401 Unauthorized", STATUS))


async def test_a_prober_that_runs_gets_the_credentials_of_each_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_RENEWAL_SECONDS", 0.05)
    async with serving(answer) as config:
        clients = [Client(replace(config, token=token), user_agent="t", field_manager="t") for token in ("one", "two")]
        apis = [Api(subject, client, "default", "probe", writes=False) for subject, client in zip("ab", clients, strict=True)]
        async with measuring(apis) as samples:

            async def last_is(good: bool) -> bool:
                assert not samples.broken
                errors = [sample.error for sample in samples.found if sample.subject == "a"]
                return bool(errors) and errors[-1].startswith("" if good else "Unauthorized") and bool(errors[-1]) is not good

            await until(lambda: last_is(good=False), "a refusal")
            clients[0].config = replace(config, token="two")
            await until(lambda: last_is(good=True), "an answer", 30)
    assert {sample.error for sample in samples.found if sample.subject == "b"} == {""}
