"""What is too much under a lowered quota: the same as on books of what stays, whatever goes already, without making them."""

from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from bulkhead.ledger.books import Books
from bulkhead.ledger.model import Claim, Flavor, Gang, Node, Pod, Rules, Share, Snapshot, Stage, Tenant
from bulkhead.ledger.order import Group, age, sort_out
from bulkhead.ledger.reclaim import Candidates
from bulkhead.ledger.takeback import _too_much

GPU, NIC = "nvidia.com/gpu", "rdma/hca"
LINES = (("fast", GPU), ("slow", GPU), ("", NIC))
NODES = tuple(Node(f"n{number}", {GPU: 8, NIC: 8, "pods": 100}, {"kind": kind}) for number, kind in enumerate(("fast", "slow")))
RULES = Rules(flavors=tuple(Flavor(kind, GPU, {"kind": kind}) for kind in ("fast", "slow")))


@st.composite
def pods(draw: st.DrawFn, at: int) -> Pod:
    tenant, gang = draw(st.sampled_from("ab")), draw(st.none() | st.sampled_from(["g", "h"]))
    stage = draw(st.sampled_from([Stage.BOUND, Stage.BOUND, Stage.ADMITTED, Stage.WAITING]))
    asks = {GPU: draw(st.integers(0, 3)), NIC: draw(st.integers(0, 2))}
    return Pod(
        f"p{at}", f"bh-{tenant}-work", f"p{at}", {name: number for name, number in asks.items() if number}, stage,
        float(draw(st.integers(0, 9))), tenant, draw(st.sampled_from(["n0", "n1"])) if stage is Stage.BOUND else "",
        priority=draw(st.integers(0, 1)), gang=None if gang is None else Gang(gang, 2),
        flavor=draw(st.sampled_from(["", "fast", "slow"])), ending=draw(st.booleans()),
        reclaim_by=draw(st.none() | st.just(60.0)),
    )  # fmt: skip


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    tenants = {
        name: Tenant(name, "c", shares={line: Share(draw(st.integers(0, 3)), draw(st.integers(0, 1))) for line in LINES})
        for name in "ab"
    }
    there = [draw(pods(at)) for at in range(draw(st.integers(0, 9)))]
    claims = tuple(Claim(name, {GPU: 1}) for name in draw(st.lists(st.sampled_from("ab"), max_size=2)))
    return Snapshot(tenants, NODES, tuple(sorted(there, key=age)), {"c": RULES}, claims=claims)


def on_the_books_of_what_stays(tenant: str, books: Books, candidates: Candidates) -> list[Group]:
    """The plain way: groups leave the account until it holds no more than it may, then the last ones come back if they can."""
    account, taken = books.later.account, []
    for group in candidates.of(tenant):
        over, staying = account.over(tenant), books.staying(group)
        if over and any(line in over for held in staying for line in held.charge):
            for held in staying:
                account.add(tenant, held.charge, -1)
            taken.append((group, staying))
    gone = []
    for group, staying in reversed(taken):
        for held in staying:
            account.add(tenant, held.charge)
        if account.over(tenant):
            for held in staying:
                account.add(tenant, held.charge, -1)
            gone.append(replace(group, pods=tuple(held.pod for held in staying)))
    return gone[::-1]


@given(snapshots(), st.sets(st.integers(0, 9)))
@settings(max_examples=150)
def test_what_is_too_much_is_what_it_is_on_the_books_of_what_stays(snapshot: Snapshot, going: set[int]) -> None:
    both = []
    for find in (_too_much, on_the_books_of_what_stays):
        found, books = sort_out(snapshot.pods), Books(snapshot)
        candidates = Candidates(found.groups, books, snapshot)
        if find is not _too_much:
            # Made before the rest is known to go: what comes back is counted in both ways.
            books.later.account.mark()
        for at, group in enumerate(found.groups):
            if at in going:
                books.comes(group)
        both.append([find(tenant, books, candidates) for tenant in "ab"])
        if find is _too_much:
            assert [books.excess(tenant) for tenant in "ab"] == [
                {line: entry.used - entry.ceiling for line, entry in books.later.account.lines(tenant)} for tenant in "ab"
            ]
    assert both[0] == both[1]
    event(f"too much: {sum(map(len, both[0]))}")
