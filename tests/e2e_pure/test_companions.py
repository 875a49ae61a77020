"""A tenant that several processes of tests use: created once, deleted once, and created again for one that comes after all."""

import os
from pathlib import Path

import pytest

from e2e.companions import Companions


class Told:
    """What the processes of a run were told to do, in order."""

    def __init__(self, folder: Path, run: str = "run-1") -> None:
        self.folder, self.run = folder, run
        self.done: list[str] = []

    def one(self) -> Companions:
        return Companions(self.folder, self.run, "bob")

    def enters(self, companions: Companions) -> None:
        companions.enter(lambda: self.done.append("create"))

    def leaves(self, companions: Companions) -> None:
        companions.leave(lambda: self.done.append("delete"))


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "not" / "there")


def test_the_first_creates_and_the_last_deletes(told: Told) -> None:
    first, second = told.one(), told.one()
    told.enters(first)
    told.enters(second)
    assert told.done == ["create"]
    told.leaves(first)
    assert told.done == ["create"]
    told.leaves(second)
    assert told.done == ["create", "delete"]


def test_one_that_comes_after_all_have_left_creates_it_again(told: Told) -> None:
    for _ in range(2):
        late = told.one()
        told.enters(late)
        told.leaves(late)
    assert told.done == ["create", "delete"] * 2


def test_one_that_never_used_it_deletes_nothing(told: Told) -> None:
    idle = told.one()
    told.leaves(idle)
    assert told.done == []


def test_what_an_earlier_run_has_left_is_created_again(told: Told) -> None:
    told.enters(told.one())  # its process dies without leaving
    later = Told(told.folder, "run-2")
    later.enters(later.one())
    assert later.done == ["create"]


def test_one_whose_creation_fails_leaves_it_to_the_next(told: Told) -> None:
    def fail() -> None:
        raise TimeoutError("not Ready")

    with pytest.raises(TimeoutError):
        told.one().enter(fail)
    told.enters(told.one())
    assert told.done == ["create"]


def test_a_process_that_dies_holds_nothing(told: Told) -> None:
    if (child := os.fork()) == 0:
        told.one().enter(lambda: None)
        os._exit(0)
    os.waitpid(child, 0)
    mine = told.one()
    told.enters(mine)
    told.leaves(mine)
    assert told.done == ["delete"]
