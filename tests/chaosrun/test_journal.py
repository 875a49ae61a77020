"""The lease and the record of a run on a real API server: one run at a time, and a run that notices that it must end."""

import asyncio
import contextlib
import re
from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Forbidden, KubeError, NotFound, Throttled, Unavailable
from tests.kit.background import background
from workstation.chaos import journal, objects
from workstation.chaos.journal import Busy, Journal, leased
from workstation.chaos.record import Entry, Record, decode

RUN = "chaos-0a1b2c"


def quiet(_: str) -> None:
    return


async def test_one_run_at_a_time_and_nothing_is_left_of_its_lease(host_client: Client, namespace: str) -> None:
    async with leased(host_client, namespace, "one", quiet):
        shown: list[str] = []
        with pytest.raises(Busy, match="run one is going on"):
            async with leased(host_client, namespace, "two", shown.append, patience=1.0):
                pytest.fail("two runs at once")
        assert "run one holds the lease" in shown[0]
        assert await journal.holder_of(host_client, namespace) == "one"
    assert (await host_client.list(kinds.LEASES, namespace)).items == []


async def test_a_lease_of_another_run_is_not_deleted(host_client: Client, namespace: str) -> None:
    async with leased(host_client, namespace, "one", quiet):
        await journal.drop_lease(host_client, namespace, "two")
        assert await journal.holder_of(host_client, namespace) == "one"


class Refusing:
    """A host without the lease, which takes none."""

    def __init__(self, error: KubeError) -> None:
        self._error = error

    async def get(self, *_: object) -> Obj:
        raise NotFound(404, "NotFound", 'leases.coordination.k8s.io "bulkhead-chaos" not found')

    async def create(self, *_: object) -> Obj:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [
        Forbidden(403, "Forbidden", 'leases.coordination.k8s.io is forbidden: User "x" cannot create resource "leases"'),
        NotFound(404, "NotFound", 'namespaces "nowhere" not found'),
    ],
)
async def test_what_keeps_the_lease_from_being_written_is_said_at_once(error: KubeError) -> None:
    """And not, after 45 s, that another run is going on."""
    async with asyncio.timeout(1):
        with pytest.raises(type(error), match=re.escape(error.args[0])):
            async with leased(cast("Any", Refusing(error)), "nowhere", "one", quiet):
                pytest.fail("without a lease")


async def test_a_host_that_does_not_answer_is_not_another_run() -> None:
    with pytest.raises(Unavailable, match="the lease system/bulkhead-chaos was not written"):
        async with leased(cast("Any", Refusing(Throttled(429, "", "later"))), "system", "one", quiet, patience=0.1):
            pytest.fail("without a lease")


async def test_a_namespace_that_there_is_not_is_named(host_client: Client) -> None:
    async with asyncio.timeout(20):
        with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
            async with leased(host_client, "nowhere", "one", quiet):
                pytest.fail("without a lease")


async def test_what_is_intended_stands_in_the_record_before_it_is_done(host_client: Client, namespace: str) -> None:
    book = Journal(host_client, namespace, Record(RUN, (Entry("Tenant"),)))
    await book.begin()
    await book.intend("creates a webhook", Entry("ValidatingWebhookConfiguration", "red"))
    found = decode(await host_client.get(kinds.CONFIG_MAPS, objects.record_name(RUN), namespace))
    assert found == book.record
    assert found.entries == (Entry("Tenant"), Entry("ValidatingWebhookConfiguration", "red"))
    await book.end()
    assert [item for item in (await host_client.list(kinds.CONFIG_MAPS, namespace)).items if objects.RUN in str(item)] == []


@pytest.mark.parametrize(
    ("end", "says"), [("stop", "asked for it"), ("delete", "the record is gone"), ("lose", "lease was lost")]
)
async def test_a_run_notices_that_it_must_end(host_client: Client, namespace: str, end: str, says: str) -> None:
    book = Journal(host_client, namespace, Record(RUN))
    await book.begin()
    async with leased(host_client, namespace, RUN, quiet) as lease:
        told: list[str] = []

        async def watch() -> None:
            told.append(await book.asked_to_end(lease))

        async with background(watch()) as task:
            await asyncio.sleep(0.1)
            assert not told
            if end == "stop":
                await journal.ask_to_end(host_client, namespace, RUN)
                # The run goes on writing, and the request stays.
                await book.intend("goes on")
            elif end == "delete":
                await journal.remove(host_client, namespace, RUN)
            else:
                lease.lost.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(30):
                    await asyncio.wait([task])
        assert says in told[0]
