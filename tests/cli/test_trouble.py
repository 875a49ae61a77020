"""Warnings out of pods and events: each trouble once, and none that is over."""

import io
from datetime import UTC, datetime
from typing import Any

import pytest

from workstation.cli.output import Progress, age, plain, table
from workstation.cli.tenant.description import without_startup
from workstation.cli.tenant.waiting import current
from workstation.cli.trouble import troubles, unscheduled


def pod(name: str, *, phase: str = "Pending", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"phase": phase} | status}


def event(reason: str, name: str, *, kind: str = "Pod", type_: str = "Warning", message: str = "m") -> dict[str, Any]:
    subject = {"kind": kind, "name": name}
    return {"metadata": {"name": "e"}, "type": type_, "reason": reason, "message": message, "involvedObject": subject}


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}


def test_a_crash_tells_its_exit_code() -> None:
    container = {
        "name": "etcd",
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        "lastState": {"terminated": {"exitCode": 2}},
    }
    assert [str(item) for item in troubles([pod("plane-0", containerStatuses=[container])], [])] == [
        "pod plane-0, container etcd: CrashLoopBackOff: back-off 10s (last exit code 2)"
    ]


def test_a_container_that_is_being_created_is_not_in_trouble() -> None:
    container = {"name": "etcd", "state": {"waiting": {"reason": "ContainerCreating"}}}
    assert troubles([pod("plane-0", containerStatuses=[container])], []) == []


def test_the_scheduler_s_event_and_the_pod_s_condition_are_one_matter() -> None:
    found = troubles([pod("plane-0", conditions=[UNSCHEDULABLE])], [event("FailedScheduling", "plane-0")] * 3)
    assert [str(item) for item in found] == ["pod plane-0: FailedScheduling: 0/3 nodes"]


def test_events_of_other_kinds_count_and_normal_ones_do_not() -> None:
    found = troubles(
        [],
        [event("FailedCreate", "plane", kind="StatefulSet"), event("Pulled", "x"), event("FailedMount", "y", type_="Normal")],
    )
    assert [item.subject for item in found] == ["statefulset plane"]


def test_events_about_pods_that_run_or_are_gone_are_settled() -> None:
    events = [event("FailedMount", name) for name in ("runs", "gone", "waits")]
    kept = current(events, [pod("runs", phase="Running"), pod("waits")])
    assert [item["involvedObject"]["name"] for item in kept] == ["waits"]


def test_a_pod_that_has_a_node_was_scheduled_since() -> None:
    """Nearly every new plane waits a second for its volume, and each creation of a tenant warned about that."""
    about = [{"kind": "Pod", "name": name} for name in ("placed", "waits")]
    events = [{"reason": reason, "involvedObject": one} for one in about for reason in ("FailedScheduling", "FailedMount")]
    pods = [pod("placed") | {"spec": {"nodeName": "gpu-a"}}, pod("waits")]
    kept = [(item["reason"], item["involvedObject"]["name"]) for item in current(events, pods)]
    assert kept == [("FailedMount", "placed"), ("FailedScheduling", "waits"), ("FailedMount", "waits")]


def test_failed_startup_probes_of_a_pod_that_is_ready_are_not_shown() -> None:
    def probe(uid: str, message: str) -> dict[str, Any]:
        return {"reason": "Unhealthy", "message": message, "involvedObject": {"kind": "Pod", "uid": uid}}

    ready = {"metadata": {"uid": "1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    starting = {"metadata": {"uid": "2"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    kept = [probe("2", "Startup probe failed: 403"), probe("1", "Liveness probe failed: 500")]
    assert without_startup([probe("1", "Startup probe failed: 403"), *kept], [ready, starting]) == kept


def test_unscheduled_pods_and_strange_ones() -> None:
    assert [item[0]["metadata"]["name"] for item in unscheduled([pod("a"), pod("b", conditions=[UNSCHEDULABLE])])] == ["b"]
    assert troubles([{}, {"metadata": None, "status": None}], [{}]) == []


def test_nothing_from_a_cluster_reaches_the_terminal_raw() -> None:
    assert plain("a\x1b[2J\r\nb\x07\u202e c") == "a [2J b c"
    assert len(plain("x" * 9999)) == 400


def test_columns_without_a_terminal() -> None:
    stream = io.StringIO()
    table(["NAME", "GPUS"], [["red", 3], ["longer-name", None]], stream=stream, indent=1)
    assert stream.getvalue() == " NAME          GPUS\n red           3\n longer-name   -\n"


def test_a_table_on_a_terminal_has_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    table(["NAME", "READY", "MESSAGE"], [["red[bold]", "True", "many words " * 20]], stream=stream)
    assert "red[bold]" in stream.getvalue()
    assert max(len(line) for line in stream.getvalue().splitlines() if "\x1b" not in line) <= 80


def test_a_table_that_is_wider_than_its_terminal_is_written_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The members of a cohort, and its queue, at 80 columns."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    members = [
        "TENANT",
        "WEIGHT",
        "RESOURCE",
        "NOMINAL",
        "MAY BORROW",
        "MAY LEND",
        "USED",
        "BORROWED",
        "LENT",
        "BORROWABLE",
        "WAITING",
    ]
    table(members, [["vision", 1, "nvidia.com/gpu@h100", 16, "all", "all", 20, 4, 0, 4, None]], stream=stream)
    queue = ["#", "TENANT", "WORKLOAD", "REASON", "MESSAGE"]
    name = "default/" + "long-name-" * 9
    table(queue, [[1, "vision", name, "CohortExhausted", "0 of your quota of 16 are free; " * 4]], stream=stream, indent=2)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "vision"
    assert lines[1].startswith("  weight 1   resource nvidia.com/gpu@h100   nominal 16")
    assert f"    workload {name}" in lines, "a name stays whole, to be copied"
    assert [line for line in lines if len(line) > 80 and name not in line] == []
    words = " ".join(stream.getvalue().split())
    assert "reason CohortExhausted message 0 of your quota" in words
    assert "waiting" not in words, "what has no value has no words"


def test_progress_says_each_state_once() -> None:
    stream = io.StringIO()
    with Progress(stream) as progress:
        for text in ("one", "one", "two"):
            progress.show(text)
    assert [line.split("] ")[1] for line in stream.getvalue().splitlines()] == ["one", "two"]


@pytest.mark.parametrize(
    ("stamp", "text"),
    [
        ("2026-01-01T11:59:01Z", "59s"),
        ("2026-01-01T11:00:00Z", "60m"),
        ("2025-12-31T12:00:00Z", "24h"),
        ("2025-12-01T12:00:00Z", "31d"),
        ("2027-01-01T00:00:00Z", "0s"),
        (None, "-"),
        ("yesterday", "-"),
    ],
)
def test_ages(stamp: str | None, text: str) -> None:
    assert age(stamp, now=datetime(2026, 1, 1, 12, tzinfo=UTC)) == text
