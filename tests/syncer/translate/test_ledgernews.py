"""What the ledger says of a host pod, as the tenant reads it: verdicts, announcements, and why a pod was ended."""

import json
import re
from typing import Any

import pytest

from bulkhead.api import ledger
from bulkhead.api.objects import Obj
from bulkhead.ledger import verdict as verdict_texts
from bulkhead.ledger.model import Cause
from syncer.translate.kinds import ledgernews
from syncer.translate.kinds import podstatus as status
from syncer.translate.kinds.pod import to_host
from tests.kit import translationsamples as samples

VIEW = samples.view({"gated_resources": ["nvidia.com/gpu"]})
OWN = samples.container(resources={"limits": {"nvidia.com/gpu": 1}})
GATED: Obj = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
NOTE = "2026-01-01T00:00:00Z"


def host(*, said: dict[str, Any] | None = None, admitted: bool = False, conditions: Any = (GATED,), **meta: Any) -> Obj:
    made = to_host(OWN, VIEW)
    made["metadata"] |= {"uid": "h1", **meta}
    made["metadata"]["annotations"] |= said or {}
    if admitted:
        del made["spec"]["schedulingGates"]
    return made | {"status": {"phase": "Pending", "conditions": list(conditions)}}


def condition(below: Obj, kind: str = "PodScheduled") -> Obj:
    shown = status.status_to_virtual(below, OWN, VIEW)["conditions"]
    return next((each for each in shown if each["type"] == kind), {})


def verdict(reason: str = "CohortExhausted", message: str = "asks 8, 4 are free") -> dict[str, Any]:
    return {ledger.VERDICT: ledger.write_verdict(reason, message)}


def test_item_95_until_the_ledger_has_spoken_the_hosts_word_stands() -> None:
    assert condition(host()) == GATED


def test_item_95_a_verdict_stands_in_the_condition_and_its_time_stays() -> None:
    assert condition(host(said=verdict())) == GATED | {"reason": "CohortExhausted", "message": "asks 8, 4 are free"}


def test_item_95_after_admission_the_hosts_scheduler_speaks() -> None:
    unschedulable = GATED | {"reason": "Unschedulable", "message": "0/1 nodes are available"}
    assert condition(host(said=verdict(), admitted=True, conditions=[unschedulable])) == unschedulable
    assert condition(host(said=verdict(), admitted=True)) == GATED


def test_item_95_what_the_ledger_says_is_bounded_and_names_nothing_of_the_host() -> None:
    name = host()["metadata"]["name"]
    found = condition(host(said=verdict(message=f"{name} in bh-red-work and bh-blue-work {'x' * 2000}")))
    assert found["message"].startswith("web-0 in team and (hidden)")
    assert len(found["message"]) < 1100
    for forged in ("", "{", "[]", '{"reason": 1}', "x" * 10_000):
        assert condition(host(said={ledger.VERDICT: forged})) == GATED
    assert condition(host(said=verdict(reason="a b\n")))["reason"] == "SchedulingGated"


def test_item_37_95_the_tenants_own_cordons_are_named_where_the_ledger_finds_no_node() -> None:
    view = samples.view({"gated_resources": ["nvidia.com/gpu"], "cordoned": ["gpu-a"]})
    below = to_host(OWN, view) | {"status": {"conditions": [GATED]}}
    below["metadata"]["annotations"] |= verdict("NoCapacity", "no node has room")
    (found,) = status.status_to_virtual(below, OWN, view)["conditions"]
    assert found["message"] == "no node has room; cordoned in this cluster: gpu-a"


def reclaim(cause: str = "ReclaimedBorrowed", message: str = "Another needs its quota.") -> dict[str, Any]:
    return {ledger.RECLAIM: ledger.write_reclaim(ledger.Reclaimed(1_800_000_000.0, cause, message))}


def test_item_97_what_is_to_be_taken_back_is_announced_with_cause_and_time() -> None:
    assert ledgernews.announced(host(), OWN, VIEW) is None
    assert ledgernews.announced(host(said={ledger.RECLAIM: "{}"}), OWN, VIEW) is None
    found = ledgernews.announced(host(said=reclaim(), admitted=True), OWN, VIEW)
    assert found == ("ReclaimedBorrowed", "Another needs its quota; it ends by 2027-01-15T08:00:00.000Z at the latest")
    bare = ledgernews.announced(host(said=reclaim(message=""), admitted=True), OWN, VIEW)
    assert bare == ("ReclaimedBorrowed", "it ends by 2027-01-15T08:00:00.000Z at the latest")


def test_item_97_a_pod_that_runs_beyond_a_lowered_quota_is_told_what_becomes_of_it() -> None:
    said = verdict(ledger.OVER_QUOTA, "the quota of its tenant was lowered: it runs until it ends")
    told = ledgernews.announced(host(said=said, admitted=True), OWN, VIEW)
    assert told == (ledger.OVER_QUOTA, "the quota of its tenant was lowered: it runs until it ends")
    # Neither for a waiting pod, nor for a verdict from the time when it waited; a decision counts more than a forecast.
    assert ledgernews.announced(host(said=said), OWN, VIEW) is None
    assert ledgernews.announced(host(said=verdict(), admitted=True), OWN, VIEW) is None
    assert (ledgernews.announced(host(said=said | reclaim(), admitted=True), OWN, VIEW) or ("",))[0] == "ReclaimedBorrowed"


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        *((cause, verdict_texts.taken_back(cause)) for cause in (Cause.BORROWED, Cause.FAIRNESS, Cause.LOWERED)),
        (Cause.ROLLBACK, verdict_texts.not_bound(20.0, 3)),
        (Cause.ROLLBACK, verdict_texts.not_bound(20.0, 1)),
    ],
)
def test_item_97_what_the_ledger_says_of_a_reclaim_reads_as_one_sentence_that_says_its_time_once(
    cause: Cause, text: str
) -> None:
    said = reclaim(str(cause), text)
    _, message = ledgernews.announced(host(said=said, admitted=True), OWN, VIEW) or ("", "")
    assert message.count("at the latest") == 1
    assert re.fullmatch(r"[a-z][^.;]*; it ends by [-0-9T:.]+Z at the latest", message), message


def test_item_97_an_announced_reclaim_is_not_a_disruption_yet() -> None:
    assert condition(host(said=reclaim(), admitted=True), "DisruptionTarget") == {}


@pytest.mark.parametrize("by", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2027-01-15", "soon", "", 5, None])
def test_a_malformed_time_announces_nothing(by: Any) -> None:
    note = json.dumps({"by": by, "cause": "ReclaimedBorrowed", "message": "soon"})
    assert ledgernews.announced(host(said={ledger.RECLAIM: note}, admitted=True), OWN, VIEW) is None


def test_item_97_a_pod_that_is_taken_back_says_why() -> None:
    ending = host(said=reclaim(), admitted=True, conditions=[], deletionTimestamp=NOTE)
    want = {"type": "DisruptionTarget", "status": "True", "reason": "ReclaimedBorrowed", "message": "Another needs its quota."}
    assert condition(ending, "DisruptionTarget") == want | {"lastTransitionTime": NOTE}
    # By the eviction API the host says so too, with less to it.
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "lastTransitionTime": "then"}
    ending["status"]["conditions"] = [evicted]
    assert condition(ending, "DisruptionTarget") == want | {"lastTransitionTime": "then"}


@pytest.mark.parametrize("reason", ["PreemptionByScheduler", "TerminationByKubelet"])
def test_item_97_what_others_on_the_host_end_says_so_as_before(reason: str) -> None:
    ended = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    assert condition(host(conditions=[ended], deletionTimestamp=NOTE), "DisruptionTarget") == ended
