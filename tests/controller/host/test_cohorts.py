"""A Cohort that comes, changes or goes is work for the Tenants that name it: on a real API server."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from bulkhead.kube import informer
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from controller.handlers import Events
from controller.host.cohorts import Cohorts
from tests.kit.background import background
from tests.kit.crds import install, served
from tests.kit.servers import ApiServer, by_token
from tests.kit.syncerbed import until

pytestmark = [pytest.mark.apiserver, pytest.mark.reconcile]


@contextlib.asynccontextmanager
async def without_cohorts(client: Client) -> AsyncIterator[None]:
    """A host as before an upgrade: it does not know the kind."""
    with contextlib.suppress(NotFound):
        await client.delete(kinds.CUSTOM_RESOURCE_DEFINITIONS, "cohorts.bulkhead.dev")
    await served(client, kinds.COHORTS, there=False)
    yield


async def test_a_cohort_is_work_for_those_that_name_it(quiet_server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer, "_RETRY_UNSERVED_SECONDS", 1.0)
    told: list[str] = []
    events = Events(told.append)
    for tenant, quota in (("one", {"cohort": "research"}), ("two", {"cohort": "batch"}), ("three", {}), ("four", None)):
        events.tenant(name=tenant, spec={"class": "standard", "quota": quota}, type="ADDED")
    async with (
        Client(by_token(quiet_server.admin), user_agent="tests", field_manager="tests") as client,
        without_cohorts(client),
        background(Cohorts(client, events.cohort).run()),
    ):
        # As on an upgrade: the definition comes once the controller runs.
        await install(client)

        async def is_told(*expected: str) -> None:
            async def so() -> bool:
                return told == list(expected)

            await until(so, f"{expected} to be told")
            told.clear()

        told.clear()
        cohort = {"metadata": {"name": "research"}, "spec": {}}
        await client.apply(kinds.COHORTS, cohort)
        await is_told("one")
        # The ledger writes its sums with every pod: no plane contains them.
        for number in range(3):
            await client.patch(kinds.COHORTS, "research", {"status": {"tenants": number}}, subresource="status")
        await client.apply(kinds.COHORTS, cohort | {"spec": {"preemption": "Nominal"}})
        await is_told("one")
        events.tenant(name="one", spec={"quota": {"cohort": "batch"}}, type="MODIFIED")
        events.tenant(name="two", spec={"quota": {"cohort": "research"}}, type="MODIFIED")
        told.clear()
        await client.delete(kinds.COHORTS, "research")
        await is_told("two")
        events.tenant(name="one", spec={}, type="DELETED")
        told.clear()
        await client.apply(kinds.COHORTS, {"metadata": {"name": "batch"}, "spec": {}})
        await client.apply(kinds.COHORTS, {"metadata": {"name": "research"}, "spec": {}})
        await is_told("two")
