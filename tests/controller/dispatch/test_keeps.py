"""Since when room is kept: it is remembered while the workload waits, and bounded."""

from controller.dispatch.keeps import Keeps


def test_the_time_begins_once_and_is_forgotten_with_the_workload() -> None:
    keeps = Keeps()
    keeps.note(["a"], ["a", "b"], 100.0)
    keeps.note(["a", "b"], ["a", "b"], 200.0)
    assert keeps.since() == {"a": 100.0, "b": 200.0}
    # Nothing is kept for it in this turn, because another workload was first: its time goes on.
    keeps.note([], ["a"], 300.0)
    assert keeps.since() == {"a": 100.0}
    keeps.note(["b"], ["b"], 400.0)
    assert keeps.since() == {"b": 400.0}


def test_what_is_remembered_is_bounded() -> None:
    keeps, many = Keeps(), [f"u{number}" for number in range(3000)]
    keeps.note(many, many, 1.0)
    assert len(keeps.since()) == 1024
