"""The experiments as data: each says what it expects, has a fault of its own, and can be chosen by name. Pure."""

import dataclasses

import pytest

from e2e.chaos import experiments, listing
from e2e.chaos.experiments import EXPERIMENTS, FAULTS, GATE, SHORT, read, selected
from e2e.chaos.faults import platform


def test_each_experiment_says_what_it_expects_in_one_or_two_sentences() -> None:
    for item in EXPERIMENTS:
        sentences = item.hypothesis.count(". ") + item.hypothesis.endswith(".")
        assert sentences in {1, 2}, item.name
        assert item.title
        assert item.family
        assert 30 <= item.recover_within <= 300, item.name


def test_no_two_experiments_share_a_fault_or_a_title() -> None:
    assert len({item.title for item in EXPERIMENTS}) == len(EXPERIMENTS)
    assert len({repr(item.fault) for item in EXPERIMENTS}) == len(EXPERIMENTS)


def test_a_fault_without_words_and_words_without_a_fault_are_errors() -> None:
    words = {"crash": {"one": {"title": "one", "within": 60, "hypothesis": "It holds."}}}
    with pytest.raises(ValueError, match="one"):
        read(words, {})
    with pytest.raises(ValueError, match="flood"):
        read({}, {"flood": FAULTS["flood"]})
    assert read(words, {"one": FAULTS["flood"]})[0].hypothesis == "It holds."


def test_an_unknown_target_is_an_error() -> None:
    words = {"crash": {"one": {"title": "one", "within": 60, "hypothesis": "It holds.", "target": "moon"}}}
    with pytest.raises(ValueError, match="moon"):
        read(words, {"one": FAULTS["flood"]})


def test_latency_is_promised_but_for_a_disk_that_all_share() -> None:
    assert [item.name for item in EXPERIMENTS if item.only_measured] == ["flood-logs", "noise-disk"]
    words = {"crash": {"one": {"title": "one", "within": 60, "hypothesis": "It holds.", "latency": "none"}}}
    with pytest.raises(ValueError, match="latency must be promised or measured, not 'none'"):
        read(words, {"one": FAULTS["flood"]})


def test_faults_of_the_platform_say_that_the_platform_is_their_target() -> None:
    for item in EXPERIMENTS:
        shared = type(item.fault).__module__ == platform.__name__
        assert not shared or item.target != "tenant", item.name


def test_the_short_set_is_small_and_has_faults_of_the_same_kind() -> None:
    few = selected([], short=True)
    assert tuple(item.name for item in few) == tuple(item.name for item in EXPERIMENTS if item.name in GATE)
    assert len(few) <= 6
    whole = {item.name: item for item in EXPERIMENTS}
    for name, item in SHORT.items():
        assert type(item.fault) is type(whole[name].fault)
        assert item.hypothesis == whole[name].hypothesis
        assert item.fault != whole[name].fault


def test_one_experiment_runs_by_its_name_and_an_unknown_one_names_the_others() -> None:
    assert [item.name for item in selected(["flood", "etcd-frozen"], short=False)] == ["flood", "etcd-frozen"]
    assert selected(["flood"], short=True) == (SHORT["flood"],)
    assert selected(["volume-lost"], short=True) == selected(["volume-lost"], short=False)
    with pytest.raises(ValueError, match=r"there are: all, .*etcd-frozen"):
        selected(["nonsense"], short=False)


def test_all_of_them_run_in_their_short_form_too() -> None:
    assert selected([], short=False) == selected(["all"], short=False) == EXPERIMENTS
    brief = selected(["all"], short=True)
    assert [item.name for item in brief] == [item.name for item in EXPERIMENTS]
    assert {item.name for item in brief if item not in EXPERIMENTS} == set(SHORT)


def test_every_fault_is_data_that_can_be_compared() -> None:
    for item in EXPERIMENTS:
        assert dataclasses.is_dataclass(item.fault)
        assert experiments.FAULTS[item.name] == item.fault


def test_the_page_is_what_would_be_written() -> None:
    assert listing.PAGE.read_text() == listing.page()


def test_the_page_has_every_experiment_with_its_hypothesis() -> None:
    text = listing.page()
    for item in EXPERIMENTS:
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{item.name}`")]
        assert item.hypothesis in row
