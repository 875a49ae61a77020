"""What pods add up to, however they come and go: the same as counting them again."""

from hypothesis import given
from hypothesis import strategies as st

from bulkhead.kube.objects import Key
from syncer.quota.order import LAST, QueuedPod
from syncer.quota.podset import PodSet, Smallest
from syncer.quota.ranked import Ranked

STEPS = st.lists(st.tuples(st.sampled_from(["add", "remove", "ask"]), st.integers(0, 9)), max_size=60)
PODS = st.builds(
    lambda number, priority, gpus, cpu, movable: QueuedPod(
        Key("space", f"p{number}"), (0, 0, -priority, "", f"u{number}"),
        {name: asked for name, asked in (("gpu", gpus), ("cpu", cpu)) if asked}, movable=movable,
    ),
    st.integers(0, 8), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.booleans(),
)  # fmt: skip


@given(STEPS)
def test_the_sum_of_the_smallest_is_that_of_a_sorted_list(steps: list[tuple[str, int]]) -> None:
    kept, plain = Smallest(), []
    for step, number in steps:
        if step == "add":
            kept.add(number)
            plain.append(number)
        elif step == "remove" and number in plain:
            kept.remove(number)
            plain.remove(number)
        else:
            assert kept.sum_of(number) == sum(sorted(plain)[:number])
    assert len(kept) == len(plain)
    assert kept.sum_of(len(plain)) == sum(plain)


@given(st.lists(st.one_of(PODS, st.integers(0, 8)), max_size=40), st.integers(-1, 9))
def test_a_crowd_is_what_its_pods_are(steps: list[QueuedPod | int], count: int) -> None:
    pods, plain = PodSet(), dict[Key, QueuedPod]()
    for step in steps:
        if isinstance(step, int):
            pods.discard(Key("space", f"p{step}"))
            plain.pop(Key("space", f"p{step}"), None)
        else:
            pods.add(step)
            plain[step.key] = step
        in_order = sorted(plain.values(), key=lambda each: each.rank)
        assert {each.key: each for each in pods} == plain
        assert pods.best(3) == in_order[:3]
        assert pods.first() == (in_order[0] if in_order else None)
        assert pods.rank == (in_order[0].rank if in_order else LAST)
        assert pods.movable == all(each.movable for each in in_order)
        for name in ("gpu", "cpu", "other"):
            asks = sorted(each.asks.get(name, 0) for each in in_order)
            assert pods.sum_of_smallest(name, count) == sum(asks[: max(count, 0)])
            assert pods.total(name) == sum(asks)
            assert pods.least(name, 2) == min([2, *asks])


def test_of_equals_those_that_came_first_come_first_and_keep_their_place() -> None:
    ranked = Ranked[str]()
    for name, priority in (("b", 0), ("a", 0), ("c", 7), ("b", 0)):
        ranked.set(name, (0, 0, -priority, "", ""))
    assert ranked.best(9) == ["c", "b", "a"]
    ranked.set("c", (0, 0, 0, "", ""))
    assert [each for each, _ in ranked.worst_first()] == ["c", "a", "b"]
    assert ranked.discard("b")
    assert not ranked.discard("b")
    assert ranked.first() == ("a", (0, 0, 0, "", ""))
    assert "b" not in ranked
    assert len(ranked) == 2
