"""Groups and parts of the core suite: every member is there, what runs alone comes last, and a group stays together."""

import re
from pathlib import Path

import pytest

from e2e.scenarios.core.order import ALONE, GROUPS, LONGEST_FIRST, group_of, place_of, runs_alone

CORE = Path("e2e/scenarios/core")
NODES = [
    f"{path}::{line.removeprefix('def ').partition('(')[0]}"
    for path in sorted(CORE.glob("test_*.py"))
    for line in path.read_text().splitlines()
    if line.startswith("def test_")
]


@pytest.mark.parametrize("member", [member for members in GROUPS.values() for member in members])
def test_every_member_of_a_group_is_there(member: str) -> None:
    file, _, test = member.partition("::")
    assert any(node.startswith(f"{CORE}/{file}.py::{test}") for node in NODES), f"no test is called {member}"


def test_groups_come_longest_first_and_what_runs_alone_last() -> None:
    placed = list(dict.fromkeys(group_of(node) for node in sorted(NODES, key=place_of)))
    assert placed[: len(LONGEST_FIRST)] == list(LONGEST_FIRST)
    assert placed[-1] == ALONE
    assert len(placed) == len(set(placed))


def test_a_test_may_stand_in_another_group_than_its_file() -> None:
    assert group_of(f"{CORE}/test_preflight.py::test_this_host_is_fit") == "test_preflight"
    assert runs_alone(f"{CORE}/test_preflight.py::test_policies_that_are_not_enforced_are_found_out")
    assert group_of(f"{CORE}/test_quota.py::test_any[x::y.py-1]") == "gpus"


def test_members_of_a_group_run_in_the_order_of_its_list() -> None:
    for group, members in GROUPS.items():
        placed = [node for node in sorted(NODES, key=place_of) if group_of(node) == group]
        firsts = []
        for member in members:
            file, _, test = member.partition("::")
            of_file = f"{CORE}/{file}.py::"
            firsts.append(
                next(at for at, node in enumerate(placed) if node == of_file + test or (not test and node.startswith(of_file)))
            )
        assert firsts == sorted(firsts), group


def test_tenants_that_a_file_orders_ahead_are_those_of_one_process() -> None:
    """Two processes that order tenants of one name take them away from each other."""
    for path in CORE.glob("test_*.py"):
        if "\ndef ahead(" in path.read_text():
            groups = {group_of(node) for node in NODES if node.startswith(f"{path}::")}
            assert len(groups) == 1, f"{path.name} orders tenants ahead, in the processes of {sorted(groups)}"


def test_every_file_is_in_one_part() -> None:
    makefile = Path("Makefile").read_text().replace("\\\n", " ")
    parts = {name: files.split() for name, files in re.findall(r"^PART\.(\w+) := (.*)$", makefile, re.MULTILINE)}
    listed = re.search(r"^PARTS := (.*)$", makefile, re.MULTILINE)
    assert listed is not None
    assert list(parts) == listed[1].split()
    files = sorted(path.stem.removeprefix("test_") for path in CORE.glob("test_*.py"))
    assert sorted(file for part in parts.values() for file in part) == files
