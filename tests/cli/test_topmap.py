"""The map of `bulkhead top`: fits whatever terminal there is, loses no device, and names nodes in part use."""

import re
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api.labels import NVLINK_DOMAIN, RACK
from bulkhead.ledger.model import Expression, Needs, Node, Pod, Rules, Share, Snapshot, Stage, Taint, Tenant, Toleration
from workstation.cli.quotas import topmap, whytext
from workstation.cli.quotas.explained import FITS, explain
from workstation.cli.quotas.topmap import Block, blocks, letters, picture

GPU = "nvidia.com/gpu"


def plain(text: str, _: str) -> str:
    return text


def node(name: str, gpus: int = 8, **more: str) -> Node:
    marks = {RACK: more.get("rack", ""), NVLINK_DOMAIN: more.get("domain", "")}
    return Node(name, {GPU: gpus, "cpu": 96_000}, labels={key: value for key, value in marks.items() if value})


def pod(name: str, on: str = "", gpus: int = 1, tenant: str = "team-a", **more: object) -> Pod:
    stage = Stage.BOUND if on else Stage.WAITING
    parts = {"virtual_namespace": "ml", "virtual_name": name, "created": 0.0} | more
    return Pod(name, f"bh-{tenant}-work", name, {GPU: gpus}, stage, tenant=tenant, node=on, **parts)  # type: ignore[arg-type]


def snapshot(nodes: list[Node], pods: list[Pod]) -> Snapshot:
    return Snapshot({"team-a": Tenant("team-a", shares={("", GPU): Share(8)})}, tuple(nodes), tuple(pods))


def test_blocks_are_of_all_who_hold_and_of_what_is_pinned() -> None:
    pods = [
        pod("a", "n2", 3), pod("b", "n2", 2, "team-b"), pod("c", "n10", 8), pod("d", "gone", 4), pod("e", gpus=8),
        pod("f", "n2", 1, ""), pod("g", gpus=2, pinned="n1"),
    ]  # fmt: skip
    pods[-1] = topmap_admitted(pods[-1])
    found = blocks(snapshot([node("n10", rack="r1"), node("n2", rack="r1"), node("n1"), node("cpu", 0)], pods), GPU)
    assert [(each.node, each.held, each.state) for each in found] == [
        ("n2", (("team-a", 3), ("team-b", 2), ("", 1)), "partial"),
        ("n10", (("team-a", 8),), "full"),
        ("n1", (("team-a", 2),), "partial"),
    ]
    drawn = picture(found, letters(["team-a", "team-b"]), lines=40, width=100, paint=plain)
    assert drawn == ["r1", "  n2   AAABB#..  partial", "  n10  AAAAAAAA  full", "n1   AA......  partial"]


def topmap_admitted(found: Pod) -> Pod:
    return replace(found, stage=Stage.ADMITTED)


def test_a_closed_node_and_one_of_many_slices_are_marked() -> None:
    closed = Block("n", ("", ""), 8, (("team-a", 1),), usable=False)
    sliced = Block("m", ("", ""), 64, (("team-a", 40), ("", 2)), usable=True)
    assert topmap.drawn(closed, {"team-a": "A"}, plain) == ("!A.......", 9)
    assert topmap.drawn(sliced, {"team-a": "A"}, plain) == ("A40 #2 .22", 10)
    assert closed.state == "closed"


def test_letters_are_the_tenants_own_where_they_are_free_and_never_shared() -> None:
    names = ["team-a", "team-b", "red", "ann", *(f"x{number}" for number in range(90))]
    found = letters(names)
    assert [found[name] for name in names[:4]] == ["A", "B", "R", "N"]
    used = Counter(found.values())
    assert used.pop("?") == 94 - 62
    assert set(used.values()) == {1}


SITES = st.lists(
    st.tuples(st.integers(1, 8), st.lists(st.tuples(st.integers(0, 4), st.integers(1, 8)), max_size=3), st.integers(0, 5)),
    min_size=1,
    max_size=150,
)


@given(SITES, st.integers(4, 60), st.integers(40, 200))
def test_the_picture_fits_and_no_device_is_lost_on_the_way(
    site: list[tuple[int, list[tuple[int, int]], int]], lines: int, width: int
) -> None:
    made = []
    for number, (capacity, holders, rack) in enumerate(site):
        held = Counter({f"t{tenant}": amount for tenant, amount in holders})
        while sum(held.values()) > capacity:
            held.subtract([next(iter(+held))])
            held = +held
        made.append(Block(f"n{number}", (f"rack-{rack}", ""), capacity, tuple(sorted(held.items())), usable=True))
    made.sort(key=lambda block: block.domain)
    names = letters(f"t{number}" for number in range(5))
    drawn = picture(made, names, lines=lines, width=width, paint=plain)
    assert len(drawn) <= max(lines, 2)
    assert max(map(len, drawn)) <= max(width, 80)
    if drawn[-1].startswith("…"):
        return
    counted: Counter[str] = Counter()
    for line in drawn:
        for times, block in re.findall(
            r"(?:(\d+)x)?((?:[T0-4]|\.)+)(?= |$)", re.sub(r"^( *n\d+ |rack-\d:?)|  (full|partial|whole)$", "", line)
        ):
            for letter in block:
                counted[letter] += int(times or 1)
    wanted = Counter({".": sum(block.free for block in made)})
    for block in made:
        for tenant, amount in block.held:
            wanted[names[tenant]] += amount
    assert counted == +wanted


@pytest.mark.parametrize("width", [20, 32, 40, 80])
def test_nodes_are_told_apart_by_the_ends_of_their_names_where_there_is_no_room_for_them(width: int) -> None:
    nodes = [f"gpu-node-of-the-blue-rack-{number}" for number in range(3)]
    made = [Block(name, ("", ""), 8, (), usable=True) for name in nodes]
    shown = [line.split()[0] for line in picture(made, {}, lines=10, width=width, paint=plain)]
    assert len(set(shown)) == 3
    assert [name[-1] for name in shown] == ["0", "1", "2"]
    # Positive control: names that fit beside the devices stay whole.
    assert (shown == nodes) == (width >= len(nodes[0]) + len("  ........  closed  "))


def test_five_hundred_nodes_that_look_alike_are_one_word() -> None:
    made = [Block(f"n{number}", ("", ""), 8, (), usable=True) for number in range(500)]
    made[7] = Block("n7", ("", ""), 8, (("team-a", 2),), usable=True)
    assert picture(made, {"team-a": "A"}, lines=10, width=80, paint=plain) == ["AA...... 499x........"]


@pytest.mark.parametrize(
    ("needs", "taints", "reason"),
    [
        (Needs(), (), FITS),
        (Needs(selector=(("pool", "x"),)), (), "its selector or affinity names other nodes"),
        (Needs(terms=((Expression("pool", "Exists", ()),),)), (), "its selector or affinity names other nodes"),
        (Needs(), (Taint("dedicated", "blue", "NoSchedule"),), "taint dedicated"),
        (Needs(tolerations=(Toleration("dedicated", "", "", exists=True),)), (Taint("dedicated", "b", "NoSchedule"),), FITS),
    ],
)
def test_each_node_is_kept_away_by_the_first_thing_that_does(needs: Needs, taints: tuple[Taint, ...], reason: str) -> None:
    one = Node("n", {GPU: 8, "pods": 10}, taints=taints)
    asked = pod("a", gpus=8, needs=needs)
    found = explain(snapshot([one], [asked]), asked, 0.0)
    assert found.placement is not None
    assert found.placement.nodes_by_reason == {reason: 1}


def test_too_little_is_told_from_never_enough_and_from_closed() -> None:
    nodes = [node("full"), node("small", 4), Node("closed", {GPU: 8}, usable=False), node("free")]
    asked = pod("a", gpus=8)
    found = explain(snapshot(nodes, [asked, pod("b", "full", 1, "team-b")]), asked, 0.0)
    assert found.placement is not None
    assert found.placement.nodes_by_reason == {
        "too little nvidia.com/gpu free": 1,
        "never has so much nvidia.com/gpu": 1,
        "not ready, or cordoned": 1,
        FITS: 1,
    }
    assert (found.placement.free, found.placement.largest, found.next_node) == (19, 8, "free")


def test_a_tenant_without_a_cohort_that_holds_too_much_is_not_said_to_give_it_back() -> None:
    held = [pod("a", "n1", 8), pod("b", "n1", 4)]
    alone = snapshot([node("n1", 16)], held)
    cohort = replace(alone, tenants={name: replace(each, cohort="c") for name, each in alone.tenants.items()})
    said = ["\n".join(whytext.text(explain(each, held[1], 0.0), {}, 0.0)) for each in (alone, cohort)]
    assert "its tenant holds more than it may, and keeps that until its pods end" in said[0]
    assert "if another tenant needs that quota" not in said[0]
    assert "if another tenant needs that quota, pods of it end within 3 min" in said[1]
    strict = replace(cohort, rules={"c": Rules(over_quota="Reclaim")})
    assert "pods over it are evicted 10 min after that began" in "\n".join(whytext.text(explain(strict, held[1], 0.0), {}, 0.0))


def test_until_when_a_pod_is_spared_is_said_while_it_is() -> None:
    held = [replace(pod("a", "n1", 8), admitted=1000.0), replace(pod("b", "n1", 4), admitted=1000.0)]
    seen = snapshot([node("n1", 16)], held)
    seen = replace(seen, tenants={name: replace(each, cohort="c") for name, each in seen.tenants.items()})
    texts = {now: "\n".join(whytext.text(explain(seen, held[1], now), {}, now)) for now in (1119.0, 1121.0)}
    assert "and not before 1970-01-01 00:18:40Z" in texts[1119.0]
    assert "not before" not in texts[1121.0]


def test_what_never_fits_has_no_place_in_the_queue_and_no_forecast() -> None:
    waits = [pod("never", gpus=7, own_priority=9), pod("large", gpus=5), pod("holds", "n1", 4)]
    seen = snapshot([node("n1", 6)], waits)
    said = {name: "\n".join(whytext.text(explain(seen, each, 0.0), {}, 0.0)) for name, each in zip("nl", waits, strict=False)}
    assert "NeverFits" in said["n"]
    assert "queue: it is not in the queue, because no room would help" in said["n"]
    assert "forecast" not in said["n"]
    assert "queue: place 1 of 1" in said["l"]


@pytest.mark.parametrize(("maker", "moves", "told"), [("job", 4, True), ("job", 0, False), ("", 4, False)])
def test_whether_a_pod_may_be_moved_is_said(maker: str, moves: int, *, told: bool) -> None:
    held = pod("a", "n1", maker=maker)
    seen = replace(snapshot([node("n1")], [held]), rules={"": Rules(max_moves=moves)})
    assert ("it may be moved to another node" in "\n".join(whytext.text(explain(seen, held, 0.0), {}, 0.0))) == told
