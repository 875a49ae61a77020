"""What a gang of many pods costs, in steps of the interpreter and never in seconds: for each pod the same, however many."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import syncer.quota
from bulkhead.api.objects import Obj
from bulkhead.api.workloads import workload_key
from bulkhead.kube.objects import Key
from tests.syncer.quota.test_hostqueue import GPU, Bed

FOLDER = str(Path(syncer.quota.__file__).parent)


class Steps:
    """Counts the lines that are run in `syncer.quota`, each round of a loop again."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, _event: str, _what: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(FOLDER) else None

    def _line(self, _frame: FrameType, _event: str, _what: Any) -> Any:
        self.count += 1
        return self._line

    @contextmanager
    def counted(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(before)


class Ready(Bed):
    """Its pods are translated as they are made, so that only what is counted is traced: traced lines are slow."""

    def __init__(self, limit: int = 8) -> None:
        super().__init__(limit)
        self.desired: dict[Key, Obj] = {}

    def pod(self, name: str, *arguments: Any, **more: Any) -> Key:
        key = super().pod(name, *arguments, **more)
        self.desired[key] = super().translated(key)
        return key

    def translated(self, key: Key) -> Obj:
        return self.desired[key]


def gang(bed: Bed, name: str, size: int, *, priority: int = 0) -> list[Key]:
    return [bed.pod(f"{name}{number:04}", of=name, size=size, priority=priority) for number in range(size)]


def all_have_room(size: int) -> Callable[[], object]:
    bed = Ready(limit=size)
    pods = gang(bed, "a", size)
    return lambda: [bed.create(each) for each in pods]


def a_worse_gang_has_to_go(size: int) -> Callable[[], object]:
    bed = Ready(limit=size)
    worse, better = gang(bed, "a", size), gang(bed, "b", size, priority=1)
    for each in worse:
        assert not bed.create(each)
    return lambda: [bed.create(each) for each in better]


def singles_have_to_go(size: int) -> Callable[[], object]:
    bed = Ready(limit=size)
    worse, better = [bed.pod(f"s{number}") for number in range(size)], gang(bed, "b", size, priority=1)
    for each in worse:
        assert not bed.create(each)
    return lambda: [bed.create(each) for each in better]


def nobody_can_go(size: int) -> Callable[[], object]:
    bed = Ready(limit=size)
    single, pods = bed.pod("single"), gang(bed, "a", size)
    assert not bed.create(single)
    bed.admit(single)
    return lambda: [bed.create(each) for _ in range(2) for each in pods]


def never_whole(size: int) -> Callable[[], object]:
    bed = Ready(limit=size)
    pods = gang(bed, "a", size)
    for each in pods[::2]:
        assert not bed.create(each)
    bed.quota["spec"]["hard"][f"requests.{GPU}"] = str(size - 1)
    return lambda: [bed.create(each) for each in pods[1::2]]


def all_wait_and_go(size: int) -> Callable[[], object]:
    bed = Ready(limit=1)
    assert not bed.create(bed.pod("single", priority=9))
    pods = [bed.pod(f"s{number}") for number in range(size)]
    assert [each for each in pods if not bed.create(each)] == []
    return lambda: [bed.host_queue.forget(each) for each in pods]


STORIES = (all_have_room, a_worse_gang_has_to_go, singles_have_to_go, nobody_can_go, never_whole, all_wait_and_go)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_each_pod_costs_the_same_however_many_there_are(story: Callable[[int], Callable[[], object]]) -> None:
    costs = []
    for size in (80, 320):
        play, steps = story(size), Steps()
        with steps.counted():
            play()
        costs.append(steps.count)
    assert costs[0] > 100, "nothing was counted"
    # Four times as many pods; sixteen times as much would be the square.
    assert costs[1] < 6 * costs[0]


def test_the_count_sees_a_square() -> None:
    """The control: what walks through all pods for each of them is found."""
    costs = []
    for size in (80, 320):
        bed, steps = Ready(limit=size), Steps()
        for each in gang(bed, "a", size):
            assert not bed.create(each)
        with steps.counted():
            for _ in range(size):
                bed.host_queue._take_back(
                    entry for entry in bed.host_queue._places_of._workloads[workload_key("", "team", gang="a", pod="")]
                )
        costs.append(steps.count)
    assert costs[1] > 10 * costs[0]
