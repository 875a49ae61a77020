"""When a cluster's accounts are written, and what is reported where they are not."""

from dataclasses import replace
from typing import Any, cast

import pytest

from controller.slurm.accounts import Accounts
from controller.slurm.answers.accounting import Quality, Records
from controller.slurm.client.rest import SlurmError, SlurmRest, SlurmTooLarge, SlurmUnreachable
from controller.slurm.spec import AccountingSpec, QosSpec, SlurmSpec, UserSpec
from tests.controller.slurm_runtime.world import START, slurm_spec
from tests.kit.fakeclock import FakeClock


class Database:
    """A slurmdbd behind its slurmrestd, as far as accounts go."""

    def __init__(self) -> None:
        self.there = Records(qos={"normal": Quality()}, users={"root": True})
        self.writes: list[str] = []
        self.error: SlurmError | None = None

    async def records(self, account: str) -> Records:
        assert account == "users"
        if self.error is not None:
            raise self.error
        return self.there

    async def write_database(self, kind: str, body: Any) -> None:
        self.writes.append(kind)
        there = self.there
        if kind == "qos":
            (quality,) = body["qos"]
            self.there = replace(there, qos={**there.qos, quality["name"]: Quality(quality["description"])})
        elif kind == "users":
            levels = {user["name"]: user["administrator_level"] == ["Administrator"] for user in body["users"]}
            self.there = replace(there, users={**there.users, **levels})
        elif kind != "associations":
            names = body["association_condition"].get("users", [""])
            found = {("team-a", "users", name) for name in names}
            self.there = replace(there, associations=there.associations | found)


class Bed:
    def __init__(self) -> None:
        self.database, self.clock = Database(), FakeClock(START)
        self.accounts = Accounts("team-a", self.clock)
        accounting = AccountingSpec(qos=(QosSpec("high", preempts=("low",)), QosSpec("low")))
        self.spec = replace(slurm_spec(), users=(UserSpec("alice", 10001, admin=True),), accounting=accounting)

    async def keep(self, spec: SlurmSpec | None = None) -> str:
        return await self.accounts.keep(cast(SlurmRest, self.database), spec or self.spec)


@pytest.fixture
def bed() -> Bed:
    return Bed()


async def test_an_empty_database_has_everything_after_one_reconcile(bed: Bed) -> None:
    assert await bed.keep() == ""
    first = ["qos", "qos", "accounts_association", "users_association", "users"]
    assert bed.database.writes == [*first, "qos", "qos"]
    assert all("bulkhead:" not in quality.description.split() for quality in bed.database.there.qos.values())
    bed.database.writes.clear()
    bed.clock.advance(301)
    assert await bed.keep() == ""
    assert bed.database.writes == []


async def test_of_a_cluster_of_which_only_users_are_known_qos_stay(bed: Bed) -> None:
    limited = replace(bed.spec, accounting=AccountingSpec(qos=(QosSpec("normal", max_wall_minutes=60),)))
    await bed.keep(limited)
    bed.database.writes.clear()
    known = replace(limited, users=(UserSpec("bob", 10002),), accounting=AccountingSpec())
    for _ in range(2):
        await bed.accounts.keep(cast(SlurmRest, bed.database), known, users_only=True)
    assert bed.database.writes == ["users", "users_association"]
    await bed.keep(known)
    assert bed.database.writes == ["users", "users_association", "qos"], "the Tenant no longer limits it"


async def test_a_database_with_more_than_is_read_is_reported_before_and_after_it_was_kept(bed: Bed) -> None:
    bed.database.error = SlurmTooLarge("the records of users take more than 4 MiB; remove some")
    missing = "users and QOS are not all in the accounting database yet: the records of users take more than 4 MiB; remove some"
    assert (await bed.keep(), bed.accounts.unread) == (missing, "")
    bed.database.error = None
    assert (await bed.keep(), bed.accounts.unread) == ("", "")
    bed.clock.advance(301)
    bed.database.error = SlurmUnreachable("slurmrestd: no endpoints")
    assert (await bed.keep(), bed.accounts.unread) == ("", ""), "away for a while"
    bed.database.error = SlurmTooLarge("the records of users take more than 4 MiB; remove some")
    assert await bed.keep() == ""
    assert bed.accounts.unread.startswith("users and QOS are no longer kept in the accounting database: the records of users")
    bed.database.error = None
    assert (await bed.keep(), bed.accounts.unread) == ("", "")
