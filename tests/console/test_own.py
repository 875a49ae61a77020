"""What a tenant's user sees: pure, from a plane that they and others may have written to."""

import json
from typing import Any

import pytest

from bulkhead.api import ownusage
from bulkhead.api.ownusage import DayUse, OwnUsage
from tests.controller.slurm_runtime.slurmrestd import job
from workstation.cli.console import own
from workstation.cli.quotas import ownjobs
from workstation.cli.quotas.owngpus import PodUse, Uses
from workstation.cli.quotas.ownjobs import Jobs

QUOTA = {
    "version": 1, "at": "2026-01-01T00:00:00Z", "cohort": True, "waiting": {},
    "lines": [{"resource": "nvidia.com/gpu", "flavor": "h100", "nominal": 24, "ceiling": 40, "used": 20, "borrowed": 0,
               "lent": 4, "borrowable": 16}],
    "limits": [{"name": "pods", "hard": "500", "used": "31"}],
    "queue": {"u-2": {"place": 3, "startsBy": "2026-01-01T01:00:00Z"}},
}  # fmt: skip


def config_map(content: Any) -> dict[str, Any]:
    return {"data": {"quota.json": content if isinstance(content, str) else json.dumps(content)}}


def pod(name: str, node: str = "", reason: str = "", **meta: Any) -> dict[str, Any]:
    conditions = [{"type": "PodScheduled", "status": "False", "reason": reason, "message": f"{name} waits"}] if reason else []
    return {
        "metadata": {"namespace": "ml", "name": name, "uid": f"u-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", **meta},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]} | ({"nodeName": node} if node else {}),
        "status": {"phase": "Running" if node else "Pending", "conditions": conditions},
    }


def shown(quota: Any, *pods: dict[str, Any]) -> dict[str, Any]:
    return own.picture_of(quota, [item for item in map(own.pod_of, pods) if item], "red", "now", [])


def test_a_user_sees_quota_places_reasons_and_where_the_rest_runs() -> None:
    told = shown(config_map(QUOTA), pod("9", reason="CohortExhausted"), pod("2", reason="BehindInQueue"), pod("1", node="n1"))
    assert told["lines"] == [
        {"name": "nvidia.com/gpu@h100", "unit": "devices",
         "rows": [{"tenant": "", "waiting": 4, "nominal": 24, "ceiling": 40, "used": 20, "borrowed": 0, "lent": 4}]},
    ]  # fmt: skip
    assert told["limits"] == [["pods", "31", "500"]]
    assert [(row["name"], row["place"], row["reason"]) for row in told["waiting"]] == [
        ("ml/2", 3, "BehindInQueue"), ("ml/9", None, "CohortExhausted"),
    ]  # fmt: skip
    assert [(row["name"], row["node"], row["asks"]) for row in told["holding"]] == [("ml/1", "n1", "2 nvidia.com/gpu")]


def test_a_pod_that_holds_devices_and_cannot_run_says_why() -> None:
    image = pod("1", node="n1")
    waits = {"reason": "ImagePullBackOff", "message": "no such image"}
    image["status"] = {"phase": "Pending", "containerStatuses": [{"name": "main", "state": {"waiting": waits}}, 7]}
    (row,) = shown(config_map(QUOTA), image)["holding"]
    assert (row["reason"], row["text"]) == ("ImagePullBackOff", "container main: no such image")


def test_pods_that_have_ended_are_not_shown_and_an_eviction_is_named() -> None:
    ended = pod("done", node="n1") | {"status": {"phase": "Succeeded"}}
    evicted = pod("out", node="n1")
    evicted["status"]["conditions"] = [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "ReclaimedBorrowed",
            "message": "another tenant needs its quota",
        }
    ]
    told = shown(None, ended, evicted, pod("bye", reason="X", deletionTimestamp="2026-01-01T00:00:00Z"))
    assert [row["reason"] for row in told["holding"]] == ["ReclaimedBorrowed"]
    assert told["waiting"] == []
    assert told["told"] is False


@pytest.mark.parametrize(
    "content",
    ["", "no json", "[" * 5000, "x" * 70_000, "[]", {"version": 2}, QUOTA | {"lines": "many", "limits": 7, "queue": []},
     QUOTA | {"lines": [{"resource": "a/b", "nominal": -1}, {"resource": 7}, None], "queue": {"u-2": {"place": True}}}],
)  # fmt: skip
def test_a_quota_of_any_content_reads_as_absent(content: Any) -> None:
    told = shown(config_map(content), pod("2", reason="BehindInQueue"))
    assert told["lines"] == []
    assert told["waiting"][0]["place"] is None


def test_a_pod_of_any_content_is_bounded() -> None:
    odd = {"metadata": {"name": 7, "namespace": None}, "spec": {"containers": "x"}, "status": []}
    assert own.pod_of(odd) is not None
    long = own.pod_of(pod("p", reason="r" * 5000))
    assert long is not None
    assert len(long.reason) <= 200
    told = shown(None, *(pod(f"p{at}", reason="X") for at in range(700)))
    assert (len(told["waiting"]), told["waitingLeft"]) == (500, 200)


def jobs(*records: dict[str, Any]) -> Jobs:
    return Jobs(ownjobs.parse(json.dumps({"jobs": records}).encode()))


def test_a_user_sees_what_their_devices_do_and_what_their_jobs_wait_for() -> None:
    worker = pod("gpu-0", reason="CohortExhausted", namespace="slurm")
    worker["metadata"]["uid"] = "u-2"
    uses = Uses({("ml", "1"): PodUse(2, 40.0, 1, watts=300.0), ("ml", "other"): PodUse(9, 1.0)}, "one node is silent")
    asked = own.Asked(
        uses, jobs(job(7, admin_comment="bulkhead: waits for a worker of gpu: CohortExhausted"), job(8, "RUNNING"))
    )
    pods = [item for item in map(own.pod_of, (pod("1", node="n1"), pod("3", node="n1"), worker)) if item]
    told = own.picture_of(config_map(QUOTA), pods, "red", "2026-01-01T00:00:00Z", [], asked=asked)
    assert [row.get("use", {}).get("busyPercent") for row in told["holding"]] == [40.0, None]
    assert told["use"] == {
        "devices": 2, "busyPercent": 40.0, "idleDevices": 1, "watts": 300.0, "simulated": False,
        "missing": "one node is silent",
    }  # fmt: skip
    (waiting,), (running,) = told["jobs"]["waiting"], told["jobs"]["running"]
    assert (waiting["job"], waiting["place"], waiting["starts"], waiting["forecast"]) == (
        "7",
        3,
        "2026-01-01T01:00:00.000Z",
        "ledger",
    )
    assert (running["job"], running["waits"]) == ("8", False)


def test_what_was_not_asked_for_has_no_section() -> None:
    told = shown(config_map(QUOTA), pod("1", node="n1"))
    assert (told["use"], told["jobs"], told["hours"]) == (None, None, None)
    assert shown(None)["use"] is None


def test_device_hours_are_those_of_the_object() -> None:
    usage = OwnUsage(1_767_225_600.0, (DayUse("2025-12-31", "nvidia.com/gpu", "", 3600),))
    told = own.picture_of({"data": {ownusage.FILE: ownusage.write(usage)}}, [], "red", "2026-01-01T00:00:00Z", [])
    assert told["hours"]["until"] == "2026-01-01T00:00:00.000Z"
    assert told["hours"]["rows"] == [
        {"resource": "nvidia.com/gpu", "day": "2025-12-31", "used": 1.0, "idle": 0.0, "borrowed": 0.0}
    ]


def test_as_many_jobs_as_there_may_be_are_cut() -> None:
    told = own.picture_of(None, [], "red", "now", [], asked=own.Asked(jobs=jobs(*(job(at) for at in range(1200)))))
    assert (len(told["jobs"]["waiting"]), told["jobs"]["waitingLeft"]) == (500, 700)
