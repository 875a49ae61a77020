"""Pages of stored usage: what is read of them, their bounds, and which of them count."""

import base64
import hashlib
import json
import zlib

import pytest

from bulkhead.metering import usagebook
from bulkhead.metering.meter import HOUR, Meter, Tally, UsageKey
from bulkhead.metering.usagebook import Page, Sums, UnreadableError
from tests.metering.test_meter import GPU, held


def tally(hour: int = 1, owner: str = "Job/a", tenant: str = "red", used: int = 1) -> Tally:
    return Tally(hour, UsageKey(tenant, "ml", owner, GPU, ""), used, 2, 3)


def test_a_page_is_read_as_it_was_written() -> None:
    page = Page(7, 8 * HOUR, "w")
    for added in (tally(), tally(), tally(hour=0), tally(owner="Job/\u2603")):
        page.add(added)
    found = usagebook.read(usagebook.write(page))
    assert found == page
    assert list(found.rows())[1] == (1, tally().account, Sums(2, 4, 6))


@pytest.mark.parametrize(
    "stored",
    [b"", b"x", *(zlib.compress(broken) for broken in (
        b"[]", b'{"form":2}', b'{"form":1,"number":"1","until":2}', b'{"form":1,"number":1,"until":2,"rows":[[1]]}',
        b"[" * 9999,
        b'{"form":1,"number":1,"until":2,"rows":[[1,"a","b","c","d","e",1,2,-3]]}',
        b'{"form":1,"number":1,"until":2,"rows":[[1,"a","b","c","d",5,1,2,3]]}',
        b'{"form":1,"number":1,"until":2,"rows":[[1,"a","b","c","d","e",1,2,4]]}',
        b'{"form":1,"number":1,"until":2,"rows":[[9999999,"a","b","c","d","e",1,2,3]]}',
        b'{"form":1,"number":1,"until":2,"rows":{}}', b'{"form":1,"number":1,"until":2}', b'{"form":1,"until":2,"rows":[]}',
        b'{"form":1,"number":1,"until":-1,"rows":[]}', b'{"form":1,"number":-1,"until":1,"rows":[]}',
        b'{"form":1,"number":true,"until":2,"rows":[]}', b'{"form":1,"number":1,"until":1e9,"rows":[]}',
        b'{"form":1,"number":1,"until":999999999999999999,"rows":[]}',
        b'{"form":1,"number":1000000000000000,"until":2,"rows":[]}',
        b'{"form":1,"number":1,"until":2,"rows":[],"reserved":{}}',
        b'{"form":1,"number":1,"until":2,"rows":[],"reserved":[[1,"a","b","c","d","e"]]}',
        b'{"form":1,"number":1,"until":2,"rows":[],"reserved":[[1,"a","b","c","d","e",-1]]}',
        b'{"form":1,"number":1,"until":2,"rows":[],"reserved":[[1,"a","b","c","d",5,1]]}',
    ))],
)  # fmt: skip
def test_a_malformed_page_is_refused(stored: bytes) -> None:
    with pytest.raises(UnreadableError):
        usagebook.read(stored)


def reserved(amount: int, owner: str = "Job/a") -> Tally:
    return Tally(1, UsageKey("red", "ml", owner, GPU, ""), 0, 0, 0, reserved=amount)


def test_what_was_reserved_is_read_as_it_was_written() -> None:
    page = Page(7, 8 * HOUR, "w")
    for added in (tally(), reserved(5), reserved(6), reserved(7, "Job/waits")):
        page.add(added)
    found = usagebook.read(usagebook.write(page))
    assert found == page
    assert [(key.owner, sums) for _, key, sums in found.rows()] == [
        ("Job/a", Sums(1, 2, 3, 11)),
        ("Job/waits", Sums(reserved=7)),
    ]


def test_a_page_knows_which_tenant_had_a_name_and_notices_another_one() -> None:
    page = Page(7, 8 * HOUR, "w")
    page.add(tally(), "u-1")
    # The last time of the former one may be counted after its successor has been made.
    page.add(tally(), "u-2")
    page.add(tally(tenant="blue"))
    found = usagebook.read(usagebook.write(page))
    assert found == page
    assert found.holders == {"red": "u-1"}
    assert not found.has_former({"red": "u-1", "blue": "u-3"})
    # A tenant that is gone without a successor starts no other page.
    assert not found.has_former({})
    assert found.has_former({"red": "u-2"})


@pytest.mark.parametrize("holders", ["x", [], {"red": 3}, {"red": "u" * 65}])
def test_malformed_uids_are_read_as_unknown(holders: object) -> None:
    content = {"form": 1, "number": 7, "until": 9, "writer": "w", "rows": [], "holders": holders}
    assert usagebook.read(zlib.compress(json.dumps(content).encode())).holders == {}


def test_a_page_of_a_release_that_did_not_count_what_is_reserved_is_read() -> None:
    said = {"form": 1, "number": 7, "until": 9, "writer": "w", "rows": [[1, "red", "ml", "Job/a", GPU, "", 1, 2, 3]]}
    page = usagebook.read(zlib.compress(json.dumps(said).encode()))
    assert list(page.rows()) == [(1, tally().account, Sums(1, 2, 3, 0))]


def test_an_older_release_reads_the_same_rows_as_before() -> None:
    """It knows form 1, takes no row that has not nine fields, and leaves out what it has no name for."""
    page = Page(7, 8 * HOUR, "w")
    page.add(tally())
    before = json.loads(zlib.decompress(usagebook.write(page)))
    for added in (reserved(5), reserved(7, "Job/waits")):
        page.add(added)
    after = json.loads(zlib.decompress(usagebook.write(page)))
    assert {name: after[name] for name in before} == before
    assert before["form"] == 1
    assert [len(row) for row in before["rows"]] == [9]
    # What it then writes has nothing reserved, and is a page like any other.
    assert usagebook.read(zlib.compress(json.dumps(before).encode())).hours[1] == {tally().account: Sums(1, 2, 3)}


def test_rows_are_bounded_and_what_is_beyond_keeps_its_tenant() -> None:
    page = Page(1, HOUR)
    for number in range(6000):
        page.add(tally(owner=f"Job/{number}"))
    assert len(page.hours[1]) == 513
    for number in range(12 * 512):
        page.add(tally(owner=f"Job/{number}", tenant=f"t{number % 12}"))
    rows = page.hours[1]
    assert len(rows) < 4096 + 20
    assert sum(sums.used for account, sums in rows.items() if account.tenant == "red") == 6000
    assert sum(sums.used for account, sums in rows.items() if account.tenant != "red") == 12 * 512


def test_tenants_with_many_names_take_none_of_the_others() -> None:
    page = Page(1, HOUR)
    for number in range(20 * 512):
        page.add(tally(owner=f"Job/{number}", tenant=f"loud-{number % 20}"))
    for number in range(40):
        page.add(tally(owner=f"Job/{number}", tenant="quiet"))
    for number in range(20 * 512):
        page.add(tally(owner=f"Job/more-{number}", tenant=f"loud-{number % 20}"))
    rows = page.hours[1]
    assert {account.owner for account in rows if account.tenant == "quiet"} == {f"Job/{number}" for number in range(40)}
    assert len(rows) < 4096 + 30
    assert sum(sums.used for account, sums in rows.items() if account.tenant != "quiet") == 2 * 20 * 512


def test_a_page_fits_into_what_the_host_accepts_and_the_tenants_with_the_longest_names_lose_them_first() -> None:
    page = Page(1, HOUR)
    page.add(tally(owner="Job/honest", tenant="blue"))
    for number in range(6 * 512):
        noise = base64.b64encode(hashlib.shake_256(str(number).encode()).digest(186)).decode()
        page.add(tally(owner=f"X/{noise}", tenant=f"t{number % 6}"))
        page.add(Tally(1, UsageKey(f"t{number % 6}", "ml", f"X/{noise}", GPU, ""), 0, 0, 0, measured=2, busy=1))
    total = sum(sums.used for _, _, sums in page.rows())
    assert len(usagebook.write(page)) > 1024 * 1024
    stored = usagebook.fitted(page)
    assert len(stored) <= 960 * 1024
    found = usagebook.read(stored)
    assert sum(sums.used for _, _, sums in found.rows()) == total
    owners = {account.tenant: account.owner for account in found.hours[1]}
    assert owners["blue"] == "Job/honest"
    assert 0 < sum(owner == usagebook.OTHERS for owner in owners.values()) < 6
    # The control: a page that fits keeps every name.
    small = Page(1, HOUR)
    small.add(tally())
    assert usagebook.fitted(small) == usagebook.write(small)


def test_a_page_is_closed_when_its_day_is_over_or_when_it_is_large_and_its_hour_is_over() -> None:
    page = Page(1, 30 * HOUR)
    assert not page.is_full(10**6)
    page.add(tally(hour=29))
    assert not page.is_full(1000)
    assert page.is_full(70_000)
    page.add(tally(hour=30))
    assert not page.is_full(70_000)
    assert page.is_full(700_000)
    page.until = 48 * HOUR
    assert page.is_full(1000)


def test_ten_thousand_short_pods_a_day_stay_small() -> None:
    page, size = Page(1, 0), 0
    for number in range(10_000):
        begin = number * 8640
        meter = Meter(begin)
        owner = f"Job/batch-{number * 7919 % 100_003:05d}"
        meter.see(held(since=begin, running=begin + 500, ended=begin + 60_000, name_of_owner=owner), listed=True)
        for counted in meter.count(begin + 60_000):
            page.add(counted)
        page.until = begin + 60_000
    size = len(usagebook.write(page))
    assert size < 256 * 1024
    total = sum(sums.used + sums.idle for _, _, sums in page.rows())
    assert total == 10_000 * 60_000


def test_of_each_number_the_page_that_reaches_furthest_counts() -> None:
    old, new, other = Page(1, 10), Page(1, 20), Page(2, 20)
    assert usagebook.newest([new, old, other]) == [new, other]
    assert usagebook.newest([old, new]) == [new]


def test_sums_are_of_whole_hours_by_what_is_asked() -> None:
    page = Page(1, 0)
    for added in (tally(hour=1), tally(hour=2), tally(hour=2, owner="Job/b"), tally(hour=3, tenant="blue")):
        page.add(added)
    found = usagebook.summed(page.rows(), 2 * HOUR + 5, lambda account: account._replace(owner="", namespace=""))
    red, blue = UsageKey("red", "", "", GPU, ""), UsageKey("blue", "", "", GPU, "")
    assert found == {red: Sums(2, 4, 6), blue: Sums(1, 2, 3)}
