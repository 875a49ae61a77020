"""Reports: every experiment is there, JUnit stays XML whatever a cluster says, and faults read pods and metrics rightly."""

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from tests.chaosrun.test_judge import HEALTHY, SUBJECTS
from workstation.chaos.experiments import BY_NAME
from workstation.chaos.faults import floods, hogs
from workstation.chaos.judge import Limits, Proof, State, judge
from workstation.chaos.plan import Facts, Order, plan
from workstation.chaos.report import Outcome, Report, document, junit, skipped
from workstation.cli.chaos import show

NASTY = "\x1b[31m\x00<&>\ud800\uffff" + "x" * 5000
NAMES = ("webhook-fails", "plane-deleted", "objects-flood", "cpu-hog")
PLAN = plan(Order(NAMES), Facts(("standard",), {}, "i"), "chaos-0a1b2c")


def outcome(name: str, **change: object) -> Outcome:
    return Outcome(BY_NAME[name], judge(replace(HEALTHY, **change), SUBJECTS, Limits()), 12.0)  # type: ignore[arg-type]


HELD = outcome("webhook-fails")
ALL = (
    HELD,
    outcome("plane-deleted", missing=NASTY),
    outcome("objects-flood", proofs=(Proof(False, NASTY),)),
    skipped(BY_NAME["cpu-hog"], NASTY),
)


def test_a_run_has_held_if_everything_ran_and_held_and_nothing_is_left() -> None:
    assert Report(PLAN, (HELD,), 1.0).held
    assert not Report(PLAN, (), 1.0).held
    assert not Report(PLAN, (HELD,), 1.0, left=("Tenant x",)).held
    assert not Report(PLAN, (HELD,), 1.0, ended="stopped").held
    for other in ALL[1:]:
        assert not Report(PLAN, (HELD, other), 1.0).held


def test_the_document_has_every_experiment_and_bounded_texts() -> None:
    found = document(Report(PLAN, ALL, 60.0, ended=NASTY, left=(NASTY,)))
    text = json.dumps(found)
    assert [result["state"] for result in found["results"]] == ["held", "violated", "unproven", "skipped"]
    assert found["counts"] == {"held": 1, "violated": 1, "unproven": 1, "skipped": 1}
    assert len(text) < 20_000
    first = found["results"][0]
    assert first["subjects"][0]["before"] == {"requests": 200, "errors": 0, "p50Milliseconds": 10.0, "p99Milliseconds": 40.0}
    assert first["subjects"][0]["limitP99Milliseconds"] == 100.0


def test_junit_stays_xml_whatever_a_cluster_says() -> None:
    root = ET.fromstring(junit(Report(PLAN, ALL, 60.0, left=(NASTY,))))  # noqa: S314 - our own
    assert {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "2",
        "skipped": "1",
    }
    kinds = [[child.tag for child in case if child.tag != "system-out"] for case in root]
    assert kinds == [[], ["failure"], ["error"], ["skipped"], ["error"]]
    assert [case.get("name") for case in root] == [*NAMES, "undo"]


def test_a_run_that_broke_nothing_is_no_suite_that_passes() -> None:
    """Pipelines take skipped tests for good ones."""
    why = "the cluster is not well without any fault"
    report = Report(PLAN, tuple(skipped(BY_NAME[name], why) for name in NAMES), 60.0, ended=why)
    root = ET.fromstring(junit(report))  # noqa: S314 - our own
    assert {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "0",
        "errors": "1",
        "skipped": "4",
    }
    (error,) = root.iter("error")
    assert (root[-1].get("name"), error.text) == ("run", why)


def test_a_run_that_ended_after_its_last_experiment_says_why_it_has_not_held(capsys: pytest.CaptureFixture[str]) -> None:
    show.report(Report(PLAN, (HELD,), 1.0, ended="the lease was lost"))
    assert "the run ended early: the lease was lost" in capsys.readouterr().out


def test_the_counts_are_those_of_the_report() -> None:
    assert [Report(PLAN, ALL, 1.0).count(state) for state in State] == [1, 1, 1, 1]


def test_watches_are_counted_from_an_api_servers_metrics() -> None:
    metrics = (
        "# TYPE apiserver_longrunning_requests gauge\n"
        'apiserver_longrunning_requests{resource="configmaps",verb="WATCH",scope="namespace"} 280\n'
        'apiserver_longrunning_requests{resource="configmaps",verb="WATCH",scope="cluster"} 3\n'
        'apiserver_longrunning_requests{resource="pods",verb="WATCH"} 9\n'
        'apiserver_longrunning_requests{resource="configmaps",verb="LIST"} 5\n'
        'apiserver_longrunning_requests{resource="configmaps",verb="WATCH"} much\n'
    )
    assert floods.watches_served(metrics, "configmaps") == 283


@pytest.mark.parametrize(
    ("log", "shown"),
    [("started 950 processes, then: no more\n", True), ("started 3 processes", False), ("started x", False), ("", False)],
)
def test_a_hog_of_processes_is_shown_by_its_log(log: str, shown: bool) -> None:
    assert hogs.started_many({}, log).shown is shown


def test_a_hog_of_memory_is_shown_by_how_its_container_ended() -> None:
    def pod(reason: str) -> dict[str, object]:
        return {"status": {"containerStatuses": [{"restartCount": 1, "lastState": {"terminated": {"reason": reason}}}]}}

    assert hogs.killed_at_limit(pod("OOMKilled"), "").shown
    assert not hogs.killed_at_limit(pod("Error"), "").shown
    assert not hogs.killed_at_limit({"status": {"containerStatuses": "x"}}, "").shown
    assert hogs.computed({}, "computed for 0.5 s\ncomputed for 1.0 s\n").shown
    assert "no space" in hogs.trouble({"status": {"conditions": [{"status": "False", "message": "no space"}]}})
