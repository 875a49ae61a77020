"""How many series a tenant costs, and that they end with the tenant and with the lease."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import REGISTRY
from prometheus_client import Counter as Counted
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.samples import Sample

from bulkhead.ledger.model import Line, Standing
from bulkhead.metering.meter import Tally, UsageKey
from controller import metrics
from controller.dispatch import metrics as of_ledger
from controller.metering import metrics as of_metering
from controller.plane.apifigures import STATUSES, WAYS

MOST_SERIES_OF_A_TENANT = 60  # with three members, Slurm, snapshots, an audit trail and one line of quota
MOST_SERIES_OF_A_LINE = 12  # each further line
STANDING = Standing(nominal=4, ceiling=8, used=3, borrowed=1, lent=0, borrowable=2)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
# By tenant: members of its plane, and the lines of its quota. All send their audit trail, and red and blue run Slurm.
TENANTS: dict[str, tuple[int, tuple[Line, ...]]] = {
    "red": (3, (("h100", "nvidia.com/gpu"), ("a100", "nvidia.com/gpu"))),
    "blue": (1, (("h100", "nvidia.com/gpu"),)),
    "green": (1, ()),
}


def report_all() -> None:
    """All that the leader reports of these tenants while everything is known."""
    for tenant, (members, lines) in TENANTS.items():
        slurm = {"nodes": {"total": 4, "idle": 4}, "jobs": {"pending": 1}} if lines else None
        metrics.report(tenant, {"conditions": [], "gpus": {"used": 3, "limit": 8}, "slurm": slurm})
        metrics.report_losses(tenant, {"webhook": 2})
        metrics.report_snapshots(tenant, last=1.0, due=2.0)
        metrics.report_store(tenant, size=3, used=2, quota=5)
        for member in range(members):
            metrics.store_fsync.labels(tenant, f"plane-{member}").set(0.01)
            metrics.store_leader_changes.labels(tenant, f"plane-{member}").inc()
        metrics.store_defragmentations.labels(tenant).inc()
        metrics.store_openings.labels(tenant).inc()
        metrics.report_certificates(tenant, {"pki-dns/client": NOW, "pki-ca-etcd": NOW + timedelta(days=1)})
        metrics.report_api(
            tenant, answers=dict.fromkeys(STATUSES, 1), seconds=dict.fromkeys(WAYS, 0.1), inflight=dict.fromkeys(WAYS, 3)
        )
        of_ledger.count_admission(tenant, 3.0)
        of_metering.report(
            Tally(
                1,
                UsageKey(tenant, "default", "Job/train", resource, flavor),
                used=1,
                idle=1,
                borrowed=1,
                reserved=1,
                measured=1,
                busy=1,
            )
            for flavor, resource in lines
        )
    of_ledger.report_waits({tenant: [5.0, 7.0] for tenant in TENANTS})
    of_ledger.report_standings({tenant: dict.fromkeys(lines, STANDING) for tenant, (_, lines) in TENANTS.items()})


def series() -> list[Sample]:
    return [sample for metric in REGISTRY.collect() for sample in metric.samples if sample.labels.get("tenant") in TENANTS]


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    metrics.stand_down()
    of_ledger.stand_down()
    for counter in (value for value in vars(of_metering).values() if isinstance(value, Counted)):
        counter.clear()


def test_a_tenant_costs_a_bounded_number_of_series() -> None:
    report_all()
    by_tenant = Counter(sample.labels["tenant"] for sample in series())
    assert by_tenant["red"] > by_tenant["blue"] > by_tenant["green"] > 15
    further = len(TENANTS["red"][1]) - 1
    assert by_tenant["red"] <= MOST_SERIES_OF_A_TENANT + further * MOST_SERIES_OF_A_LINE, by_tenant
    assert by_tenant["blue"] <= MOST_SERIES_OF_A_TENANT


def test_a_metric_has_no_series_with_the_time_at_which_it_was_made() -> None:
    report_all()
    assert [sample.name for metric in REGISTRY.collect() for sample in metric.samples if sample.name.endswith("_created")] == []


def test_a_deleted_tenant_has_no_series_of_the_controller() -> None:
    report_all()
    metrics.forget("red")
    of_ledger.keep({"blue", "green"})
    of_ledger.report_standings({})
    of_ledger.report_waits({})
    left = {sample.name for sample in series() if sample.labels["tenant"] == "red"}
    assert {name for name in left if not name.startswith("bulkhead_gpu_")} == set()
    assert [sample for sample in series() if sample.labels["tenant"] == "blue"]


def test_every_metric_by_tenant_ends_with_it() -> None:
    by_tenant = {
        value for value in vars(metrics).values() if isinstance(value, MetricWrapperBase) and "tenant" in value._labelnames
    }
    by_tenant.discard(metrics.retained_until)  # of a tenant that is deleted: it begins there
    report_all()
    reported = {metric for metric in by_tenant for part in metric.collect() if part.samples}
    assert reported == by_tenant, "report it above"
    metrics.forget("red")
    left = [sample for metric in by_tenant for part in metric.collect() for sample in part.samples]
    assert {sample.labels["tenant"] for sample in left} == {"blue", "green"}


def test_a_process_that_no_longer_leads_says_nothing_of_tenants() -> None:
    report_all()
    metrics.leading.set(1)
    metrics.queue_depth.set(7)
    metrics.issuers_silent.set(1)
    of_ledger.pods.set(9)
    metrics.stand_down()
    of_ledger.stand_down()
    # Device-seconds are counters of what this process stored: nothing that is true no longer.
    assert {sample.name for sample in series() if not sample.name.startswith("bulkhead_gpu_")} == set()
    numbers = ("controller_leading", "controller_queue_depth", "controller_issuers_silent", "ledger_pods")
    assert [REGISTRY.get_sample_value(f"bulkhead_{name}") for name in numbers] == [0, 0, 0, 0]


def test_of_the_certificates_the_one_that_ends_first_is_named() -> None:
    ends = {"pki-dns/client": NOW, "pki-ca-etcd": NOW - timedelta(days=1), "pki-etcd/server": NOW + timedelta(days=1)}
    metrics.report_certificates("red", {"pki-dns/client": NOW})
    metrics.report_certificates("red", ends)
    (only,) = [sample for sample in series() if sample.name == "bulkhead_tenant_certificate_end_seconds"]
    assert (only.labels["certificate"], only.value) == ("pki-ca-etcd", (NOW - timedelta(days=1)).timestamp())
    metrics.report_certificates("red", {})
    assert series() == []


def test_latency_that_is_unknown_now_is_not_the_one_of_before() -> None:
    metrics.report_api("red", answers={"2xx": 4}, seconds={"read": 0.2, "write": 0.3}, inflight={"read": 1})
    metrics.report_api("red", answers={"2xx": 3}, seconds={"read": 0.1, "write": None}, inflight={})
    found = {(sample.name, *sample.labels.values()): sample.value for sample in series()}
    assert found == {
        ("bulkhead_tenant_apiserver_seconds", "red", "read"): 0.1,
        ("bulkhead_tenant_apiserver_answers_total", "red", "2xx"): 7,
    }


def test_a_tenant_that_leaves_slurm_has_no_nodes_of_it() -> None:
    def shown() -> set[str]:
        return {sample.labels["state"] for sample in series() if sample.name == "bulkhead_tenant_slurm_nodes"}

    metrics.report("red", {"slurm": {"nodes": {"total": 2, "idle": 1, "mixed": 1}}})
    assert shown() == {"idle", "mixed", "allocated", "down", "drained"}
    metrics.report("red", {"slurm": None})
    assert shown() == set()


@pytest.mark.parametrize(
    ("status", "reason", "uid", "down"),
    [
        ("True", "Ready", "u", 0),
        ("True", "MembersDown", "u", 0),
        ("False", "WaitingForPlane", "u", 1),
        ("False", "QuorumLost", "u", 1),
        ("False", "WaitingForPlane", None, 0),  # it is being built
        ("False", "DataLost", "u", 0),  # has an alert of its own
    ],
)
def test_a_plane_is_down_once_it_was_built(status: str, reason: str, uid: str | None, down: int) -> None:
    condition = {"type": "PlaneReady", "status": status, "reason": reason}
    metrics.report("red", {"conditions": [condition], "planeClusterUID": uid})
    assert REGISTRY.get_sample_value("bulkhead_tenant_plane_down", {"tenant": "red"}) == down


def test_a_full_store_is_told_by_its_condition() -> None:
    for reason, full in (("StoreFilling", 0), ("StoreFull", 1), ("Ready", 0)):
        metrics.report("red", {"conditions": [{"type": "StoreHasRoom", "status": "False", "reason": reason}]})
        assert REGISTRY.get_sample_value("bulkhead_tenant_store_full", {"tenant": "red"}) == full


def test_members_that_differ_are_told_by_their_condition() -> None:
    for reason, differs in (("MembersDown", 0), ("Corrupt", 1), ("MemberReplaced", 0)):
        metrics.report("red", {"conditions": [{"type": "Degraded", "status": "True", "reason": reason}]})
        assert REGISTRY.get_sample_value("bulkhead_tenant_store_corrupt", {"tenant": "red"}) == differs
    metrics.report("red", {"conditions": []})
    assert REGISTRY.get_sample_value("bulkhead_tenant_store_corrupt", {"tenant": "red"}) == 0


def test_waits_are_told_by_their_longest_and_their_middle_one() -> None:
    of_ledger.report_waits({"red": [1.0, 2.0, 9.0], "blue": [4.0]})
    of_ledger.report_waits({"red": [2.0, 3.0, 10.0]})
    found = {(sample.name, *sample.labels.values()): sample.value for sample in series()}
    assert found == {
        ("bulkhead_ledger_tenant_waiting_pods", "red"): 3,
        ("bulkhead_ledger_tenant_wait_seconds", "red", "longest"): 10,
        ("bulkhead_ledger_tenant_wait_seconds", "red", "median"): 3,
    }
