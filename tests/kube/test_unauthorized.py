"""What is told of credentials that a server refuses: each 401, and nothing else."""

import pytest

from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, Unauthorized
from bulkhead.kube.resources import PODS
from tests.kit.hostileserver import fixed, http, serving

STATUS = b'{"kind":"Status","code":%d,"reason":"%s","message":"m"}'
REFUSED = fixed(http("401 Unauthorized", STATUS % (401, b"Unauthorized")))
FORBIDDEN = fixed(http("403 Forbidden", STATUS % (403, b"Forbidden")))


async def test_credentials_that_are_refused_are_told_and_the_caller_gets_the_error() -> None:
    told: list[str] = []
    async with serving(REFUSED) as config, Client(config, user_agent="tests", field_manager="tests") as client:
        client.transport.on_unauthorized = lambda: told.append("401")
        with pytest.raises(Unauthorized):
            await client.get(PODS, "p", "n")
        assert told == ["401"]
        with pytest.raises(Unauthorized):
            async with client.transport.stream("/api/v1/pods"):
                pass
        assert told == ["401", "401"]
        # What lies behind a proxy of the server is answered whatever its status.
        assert (await client.transport.exchange("GET", "/x")).status == 401
        assert len(told) == 3


async def test_missing_rights_are_not_told() -> None:
    told: list[str] = []
    async with serving(FORBIDDEN) as config, Client(config, user_agent="tests", field_manager="tests") as client:
        client.transport.on_unauthorized = lambda: told.append("401")
        with pytest.raises(Forbidden):
            await client.get(PODS, "p", "n")
        with pytest.raises(Forbidden):
            async with client.transport.stream("/api/v1/pods"):
                pass
    assert told == []


async def test_a_client_that_renews_nothing_goes_on() -> None:
    async with serving(REFUSED) as config, Client(config, user_agent="tests", field_manager="tests") as client:
        for _ in range(2):
            with pytest.raises(Unauthorized):
                await client.get(PODS, "p", "n")
