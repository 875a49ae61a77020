"""Pages of usage that take too much: the oldest lose their names, and no tenant can make another's sums go."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import Unavailable
from bulkhead.metering import usagebook
from bulkhead.metering.meter import HOUR, Tally, UsageKey
from bulkhead.metering.usagebook import Page, Sums
from controller.metering import store
from controller.metering.store import UsageStore

GPU = "nvidia.com/gpu"


class Host:
    """The ConfigMaps of one namespace."""

    def __init__(self) -> None:
        self.there: dict[str, Obj] = {}
        self.dies_before_deletion = False

    async def list_metadata(self, *_: object, **__: object) -> Any:
        return SimpleNamespace(items=[{"metadata": obj["metadata"]} for obj in self.there.values()])

    async def get(self, _: object, name: str, *__: object) -> Obj:
        return self.there[name]

    async def create(self, _: object, body: Obj, *__: object) -> Obj:
        name = body["metadata"]["name"]
        assert name not in self.there
        self.there[name] = body | {"metadata": body["metadata"] | {"uid": f"uid-{len(self.there)}"}}
        return self.there[name]

    async def delete(self, _: object, name: str, *__: object, uid: str) -> None:
        if self.dies_before_deletion:
            raise Unavailable(503, "", "the controller died")
        assert self.there.pop(name)["metadata"]["uid"] == uid

    async def filled(self, number: int) -> None:
        """A page of one hour, on which a quiet tenant is beside one with many names."""
        page = Page(number, (number + 1) * HOUR)
        page.add(Tally(number, UsageKey("quiet", "ml", "Job/train", GPU, ""), used=number, idle=0, borrowed=0))
        for job in range(200):
            page.add(Tally(number, UsageKey("loud", "ml", f"Job/{number}-{job}", GPU, ""), used=1, idle=0, borrowed=0))
        await self.create(None, usagebook.config_map(page, usagebook.write(page), closed=True))

    def pages(self) -> list[Page]:
        return usagebook.newest(map(usagebook.page_of, self.there.values()))

    def sums(self, tenant: str) -> dict[int, int]:
        """What a tenant used, by the number of the page."""
        return {
            page.number: sum(sums.used for _, account, sums in page.rows() if account.tenant == tenant) for page in self.pages()
        }


@pytest.fixture
async def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    for number in range(1, 9):
        await made.filled(number)
    size = max(int(obj["metadata"]["annotations"]["bulkhead.dev/usage-bytes"]) for obj in made.there.values())
    monkeypatch.setattr(store, "_MOST_BYTES_WITH_NAMES", 3 * size)
    monkeypatch.setattr(store, "_MOST_BYTES_OF_PAGES", 5 * size)
    return made


def keeper(host: Host) -> UsageStore:
    return UsageStore(cast("Client", host), "system", "w")


async def test_a_tenant_with_many_names_makes_no_others_usage_go(host: Host) -> None:
    before = host.sums("quiet"), host.sums("loud")
    await keeper(host).tidy(10 * HOUR)
    assert (host.sums("quiet"), host.sums("loud")) == before
    named = [page.number for page in host.pages() if any(account.owner != "*" for _, account, _ in page.rows())]
    assert named == [6, 7, 8]
    assert all(obj["immutable"] for obj in host.there.values())
    # What is small enough stays as it is.
    stored = dict(host.there)
    await keeper(host).tidy(10 * HOUR)
    assert host.there == stored


async def test_a_death_between_the_sums_and_the_deletion_counts_nothing_twice(host: Host) -> None:
    before = host.sums("quiet")
    host.dies_before_deletion = True
    with pytest.raises(Unavailable):
        await keeper(host).tidy(10 * HOUR)
    assert (len(host.there), host.sums("quiet")) == (9, before), "the sums exist before the page goes"
    host.dies_before_deletion = False
    await keeper(host).tidy(10 * HOUR)
    assert (len(host.there), host.sums("quiet")) == (8, before)


async def test_a_page_that_cannot_be_read_stays_as_it_is(host: Host) -> None:
    host.there["bulkhead-usage-19700101-1"] |= {"binaryData": {"page": "AAAA"}}
    await keeper(host).tidy(10 * HOUR)
    assert "bulkhead-usage-19700101-1" in host.there
    assert sorted(map(usagebook.number_of, host.there)) == list(range(1, 9))


async def test_pages_still_go_by_age(host: Host) -> None:
    await keeper(host).tidy(400 * 24 * HOUR + 4 * HOUR + 1)
    assert sorted(map(usagebook.number_of, host.there)) == list(range(4, 9))


def test_only_names_are_left_out() -> None:
    page = Page(7, 9 * HOUR, "w", holders={"red": "u"})
    for hour, owner in ((7, "Job/a"), (7, "Job/b"), (8, "Job/a")):
        page.add(Tally(hour, UsageKey("red", "ml", owner, GPU, "a100"), 5, 4, 3, 2, 2, 1))
    made = usagebook.without_names(usagebook.config_map(page, usagebook.write(page), closed=True))
    found = usagebook.page_of(made)
    key = UsageKey("red", "*", "*", GPU, "a100")
    assert found.hours == {7: {key: Sums(10, 8, 6, 4, 4, 2)}, 8: {key: Sums(5, 4, 3, 2, 2, 1)}}
    assert (found.number, found.until, found.holders) == (page.number, page.until, page.holders)
    assert usagebook.number_of(made["metadata"]["name"]) == 7
