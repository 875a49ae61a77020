"""A ledger that dies right after a write has written it, whatever else it was about to write."""

import asyncio

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.kubeconfig import KubeConfig
from bulkhead.kube.resources import PODS
from bulkhead.kube.transport import Transport
from tests.kit.ledgerhost import Killed, Mortal

_POD: Obj = {"metadata": {"namespace": "work", "name": "a"}}


@pytest.mark.parametrize(("after", "sent"), [(True, 2), (False, 1)])
async def test_the_write_at_which_it_dies_is_not_cancelled_by_those_that_follow(
    monkeypatch: pytest.MonkeyPatch, *, after: bool, sent: int
) -> None:
    answered: list[str] = []

    async def slowly(_: Transport, method: str, *__: object, **more: object) -> bytes:
        # As long as a handshake takes: many turns of the loop.
        for _turn in range(10):
            await asyncio.sleep(0)
        answered.append(method)
        return b"{}"

    monkeypatch.setattr(Transport, "request", slowly)
    client = Mortal(KubeConfig(server="https://127.0.0.1:1"), user_agent="mortal", field_manager="mortal")
    client.dies_at, client.after = 2, after

    async def four() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(client.create(PODS, _POD))

    await client.create(PODS, _POD)
    with pytest.raises(ExceptionGroup) as died:
        await four()
    assert died.value.subgroup(lambda error: not isinstance(error, Killed | ExceptionGroup)) is None
    assert len(answered) == sent
