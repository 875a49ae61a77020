"""What an archive has of the ledger: numbers of the cohort, the tenant's own workloads, and of others how many wait."""

import json

from tests.console import sample
from workstation.cli.quotas.decided import decided


def test_a_tenant_without_free_devices_is_explained() -> None:
    host = sample.exhausted()
    host.pods.append(sample.waiting("other", "biology", 16))
    found = decided(host.seen().view, "robotics")
    assert found["cohort"] == "research"
    lines = {row["tenant"]: (row["nominal"], row["used"], row["borrowed"], row["lent"]) for row in found["lines"]}
    assert lines["vision"] == (96, 192, 96, 0)
    assert lines["robotics"][:2] == (64, 0)
    assert [(workload["place"], workload["reason"], workload["pods"]) for workload in found["waiting"]] == [
        (place, "WaitingForReclaim", [f"robot-{place - 1}"]) for place in (1, 2, 3)
    ]
    assert found["othersWaiting"] == {"biology": 1}
    assert found["podsByStage"] == {"waiting": 3}
    json.dumps(found)


def test_pods_have_their_names_on_the_host_and_not_the_text_of_the_tenant() -> None:
    told = json.dumps(decided(sample.small().seen().view, "blue"))
    assert "wait-0" in told
    assert not [name for name in sample.HOSTILE if json.dumps(name)[1:-1] in told]


def test_of_others_without_a_cohort_nothing_is_told() -> None:
    host = sample.lab()
    for name in ("alone", "apart"):
        host.tenant(name, 8, cohort="")
    found = decided(host.seen().view, "alone")
    assert (found["cohort"], {row["tenant"] for row in found["lines"]}, found["othersWaiting"]) == ("", {"alone"}, {})


def test_a_tenant_that_the_ledger_does_not_count_has_nothing() -> None:
    assert decided(sample.lab().seen().view, "unknown") == {}
