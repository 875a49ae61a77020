"""Metering of claims: which fields of a claim are read, which are counted, for which tenant, and as which device."""

from typing import Any

import pytest
from hypothesis import given

from bulkhead.api import deviceclaims, labels
from bulkhead.metering import claimed as reading
from bulkhead.metering.claimed import Claimed, claimed_of
from bulkhead.metering.held import Held, held_of
from bulkhead.metering.meter import HOUR, Meter, Tally, UsageKey
from bulkhead.metering.usagebook import Sums
from tests.ledger.junk import CLAIM_FIELDS, junk
from tests.metering.test_meter import GPU, at, held, host_pod, stamp, sums

CLASS, MIG, OWN = "gpu.example.com", "mig.example.com", "imex.example.com"
LINES = {"red": {CLASS: ("", GPU), MIG: ("", GPU), OWN: ("", OWN)}}


def exactly(name: str, device_class: str = CLASS, **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class} | more}


def first(name: str, **classes: str) -> dict[str, Any]:
    return {
        "name": name,
        "firstAvailable": [{"name": option, "deviceClassName": found} for option, found in classes.items()],
    }


def host_claim(*requests: dict[str, Any], results: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """A mirrored claim that was given a device for each of `results`; `more` over its parts."""
    noted = {labels.VIRTUAL_NAMESPACE: "ml", labels.VIRTUAL_NAME: "mine"}
    meta = {"uid": "c1", "namespace": "bh-red-work", "name": "mine-x", "creationTimestamp": stamp(5), "annotations": noted}
    meta |= {"labels": {labels.SYNCED: labels.SYNCED_BY_SYNCER}} | more.get("meta", {})
    given = [{"request": result, "driver": "d", "pool": "n1", "device": f"g{number}"} for number, result in enumerate(results)]
    allocation = {"allocationTimestamp": stamp(12), "devices": {"results": [*given, *more.get("results_too", [])]}}
    status = {"allocation": allocation | more.get("allocation", {}), "reservedFor": more.get("users", [])}
    return {"metadata": meta, "spec": {"devices": {"requests": list(requests)}}, "status": status if results else {}}


ADMIN = {"request": "a", "driver": "d", "pool": "n1", "device": "g9", "adminAccess": True}
EITHER = first("a", big=CLASS, small=MIG)
# What it was given by class; None where it is not metered.
CASES: list[tuple[str, dict[str, Any], dict[str, int] | None]] = [
    ("a device", host_claim(exactly("a"), results=("a",)), {CLASS: 1}),
    ("what it was given, whatever it asks for", host_claim(exactly("a", count=4), results=("a", "a", "a", "a")), {CLASS: 4}),
    ("several requests", host_claim(exactly("a"), exactly("b", OWN, count=2), results=("a", "b", "b")), {CLASS: 1, OWN: 2}),
    ("of alternatives the one that it was given", host_claim(EITHER, results=("a/small", "a/small")), {MIG: 2}),
    ("and not the other", host_claim(EITHER, results=("a/big",)), {CLASS: 1}),
    ("of several requests with alternatives", host_claim(EITHER, exactly("b"), results=("a/small", "b")), {MIG: 1, CLASS: 1}),
    ("nothing yet, though it is charged", host_claim(exactly("a", count=8)), None),
    ("nothing at all, though that was given", host_claim(exactly("a"), results=("other",)), None),
    ("a device that it administers", host_claim(exactly("a"), results=("a",), results_too=[ADMIN]), {CLASS: 1}),
    ("a part of a device", host_claim(exactly("a"), results=("a",), results_too=[ADMIN | {"adminAccess": False}]), {CLASS: 2}),
    ("the scheduler's own claim", host_claim(exactly("a"), results=("a",), meta={"labels": {}}), None),
    ("an admin's claim", host_claim(exactly("a"), results=("a",), meta={"namespace": "default"}), None),
    ("a claim in a plane's namespace", host_claim(exactly("a"), results=("a",), meta={"namespace": "bh-red"}), None),
    ("no UID", host_claim(exactly("a"), results=("a",), meta={"uid": 5}), None),
    ("more than any claim can be given", host_claim(exactly("a"), results=("a",) * 5000), {CLASS: 64}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "claim", "devices"), CASES, ids=[case[0] for case in CASES])
def test_what_a_claim_was_given(name: str, claim: dict[str, Any], devices: dict[str, int] | None) -> None:
    found = claimed_of(claim)
    assert (None if found is None else found.devices) == devices


def test_the_owner_the_time_and_the_pod_of_a_claim() -> None:
    users = [{"resource": "pods", "name": "p", "uid": "u1"}, {"resource": "podgroups", "uid": "g"}, {"resource": "pods"}, 7]
    found = claimed_of(host_claim(exactly("a"), results=("a",), users=users))
    assert found == Claimed("c1", "red", "ml", "mine", {CLASS: 1}, created=at(5), given=at(12), users=("u1",))
    unsaid = claimed_of(host_claim(exactly("a"), results=("a",), allocation={"allocationTimestamp": "soon"}))
    assert unsaid is not None
    assert unsaid.given is None


@given(junk(CLAIM_FIELDS), junk(CLAIM_FIELDS))
def test_no_claim_is_too_strange(spec: Any, status: Any) -> None:
    found = claimed_of(host_claim() | {"spec": spec, "status": status})
    assert found is None or all(type(number) is int and 0 < number <= 64 for number in found.devices.values())
    claimed_of({"metadata": spec, "spec": status})
    deviceclaims.lines_of({"metadata": spec, "spec": status})


def test_what_a_claim_says_is_bounded() -> None:
    noted = {labels.VIRTUAL_NAMESPACE: "n" * 9999, labels.VIRTUAL_NAME: "m" * 9999}
    users = [{"resource": "pods", "uid": f"u{number}"} for number in range(5000)]
    found = claimed_of(host_claim(exactly("a", "c" * 9999), results=("a",), users=users, meta={"annotations": noted}))
    assert found is not None
    assert (len(found.namespace), len(found.name), len(found.users)) == (253, 253, 256)
    assert [len(name) for name in found.devices] == [253]
    meter = Meter(0)
    for number in range(100):
        meter.see_claim(claimed(users=tuple(f"{number}-{user}" for user in range(256))), 0)
    assert len(meter._claims["c"].users) <= 1024 + 256


QUOTA = {
    "metadata": {"annotations": {deviceclaims.LINES: '{"gpu.example.com":"nvidia.com/gpu@h100","gone.example.com":"x/y"}'}},
    "spec": {
        "hard": {
            deviceclaims.quota_name(CLASS): "4",
            deviceclaims.quota_name(OWN): "2",
            deviceclaims.quota_name("none.example.com"): "0",
            "configmaps": "5",
        }
    },
}


def test_the_quota_of_objects_says_what_devices_count_as() -> None:
    assert deviceclaims.lines_of(QUOTA) == {CLASS: ("h100", GPU), OWN: ("", OWN)}
    assert deviceclaims.lines_of({"metadata": None, "spec": {"hard": {"pods": "1"}}}) == {}


# -- what is counted


def claimed(uid: str = "c", *, given: int | None = 0, users: tuple[str, ...] = (), **more: Any) -> Claimed:
    parts: dict[str, Any] = {"devices": {CLASS: 1}, "created": 0, "tenant": "red", "name": "mine"} | more
    return Claimed(uid=uid, namespace="ml", given=given, users=users, **parts)


def user(uid: str = "u", owner: str = "Job/p", **more: Any) -> Held:
    return held(uid, devices={}, name_of_owner=owner, **more)


def counted(meter: Meter, to: int, **more: Any) -> Sums:
    return sums(list(meter.count(to, lines=LINES, **more)))


def test_it_is_idle_until_a_pod_of_it_runs_and_once_none_runs_and_hours_are_split() -> None:
    meter = Meter(0)
    meter.see(user(since=HOUR - 2000, running=HOUR + 1000, ended=HOUR + 4000))
    meter.see_claim(claimed(given=HOUR - 3000, devices={CLASS: 2, MIG: 1, OWN: 1}, users=("u",)), None)
    meter.claim_gone("c", HOUR + 6000)
    found = list(meter.count(HOUR * 2, lines=LINES))
    gpu, own = (UsageKey("red", "ml", "Job/p", resource, "") for resource in (GPU, OWN))
    assert found == [
        Tally(0, gpu, 0, 9000, 0), Tally(0, own, 0, 3000, 0), Tally(1, gpu, 9000, 9000, 0), Tally(1, own, 3000, 3000, 0)
    ]  # fmt: skip
    assert list(meter.count(HOUR * 3)) == []
    assert (meter._claims, meter._left) == ({}, {})


def test_several_users_at_once_and_one_after_another_count_once() -> None:
    meter = Meter(0)
    for uid, running, ended in (("a", 1000, 5000), ("b", 2000, 3000), ("c", 4000, 6000), ("d", 8000, 9000)):
        meter.see(user(uid, since=0, running=running, ended=ended))
    meter.see_claim(claimed(users=("a", "b", "c")), None)
    meter.see_claim(claimed(users=("d",)), None)
    assert counted(meter, 10_000) == Sums(6000, 4000, 0)


def test_it_is_its_users_owners_or_its_own() -> None:
    meter = Meter(0)
    meter.see(user("a"))
    meter.see_claim(claimed(users=("a",)), None)
    assert [tally.account.owner for tally in meter.count(1000)] == ["Job/p"]
    meter.see(user("b", "Job/q"))
    meter.see_claim(claimed(users=("a", "b")), None)
    assert [tally.account.owner for tally in meter.count(2000)] == ["ResourceClaim/mine"]
    meter.see_claim(claimed(users=("unknown",)), None)
    list(meter.count(3000))
    assert [tally.account.owner for tally in meter.count(4000)] == ["ResourceClaim/mine"]


def test_a_class_without_a_line_is_metered_as_what_it_is_and_one_with_a_flavor_as_that() -> None:
    meter = Meter(0)
    meter.see_claim(claimed(devices={CLASS: 1, OWN: 1}), None)
    found = meter.count(1000, lines={"red": {CLASS: ("h100", GPU)}, "blue": {OWN: ("", GPU)}})
    assert {(tally.account.flavor, tally.account.resource) for tally in found} == {("h100", GPU), ("", OWN)}


def test_a_pod_of_another_tenant_uses_nothing_and_a_worker_without_a_job_rests() -> None:
    meter = Meter(0)
    meter.see(user(since=0, running=0, virtual_uid="v"))
    meter.see_claim(claimed(users=("u",), tenant="blue"), None)
    assert counted(meter, 1000) == Sums(0, 1000, 0)
    meter.see_claim(claimed("c2", users=("u",)), None)
    assert counted(meter, 2000, resting={("red", "v")}) == Sums(0, 2000, 0)
    # Of the first one nothing is used even then.
    assert counted(meter, 3000) == Sums(1000, 1000, 0)


def test_what_is_lost_and_given_again_are_two_intervals_of_one_uid() -> None:
    meter = Meter(0)
    meter.see_claim(claimed(given=0), 0)
    meter.claim_gone("c", 2000)
    # A stamp in whole seconds can lie before the end of what was there before.
    meter.see_claim(claimed(given=1500), 2500)
    meter.claim_gone("c", 3000)
    meter.see_claim(claimed(given=None), 5000)
    assert counted(meter, 6000) == Sums(0, 2000 + 1000 + 1000, 0)


def test_one_made_again_under_its_name_is_another() -> None:
    meter = Meter(0)
    meter.see_claim(claimed("c1", given=0), 0)
    meter.claim_gone("c1", 1000)
    meter.see_claim(claimed("c2", given=900), 1000)
    assert counted(meter, 2000) == Sums(0, 1000 + 1100, 0)


def test_after_a_gap_it_goes_on_from_what_was_counted_and_what_was_given_since_from_there() -> None:
    meter = Meter(10_000)
    meter.see(user("late", since=14_000))
    meter.see_claim(claimed("before", given=3000), None)
    meter.see_claim(claimed("since", given=12_000), None)
    meter.see_claim(claimed("unsaid", given=None, users=("late",)), None)
    meter.see_claim(claimed("nobody's", given=None, created=15_000), None)
    assert counted(meter, 20_000).idle == 10_000 + 8000 + 6000 + 5000


def test_claims_are_not_counted_while_they_are_not_watched() -> None:
    meter = Meter(0)
    meter.see_claim(claimed(), None)
    assert counted(meter, 1000).idle == 1000
    meter.no_claims()
    assert counted(meter, 5000).idle == 0
    meter.see_claim(claimed(), None)
    assert counted(meter, 6000).idle == 1000


def pod_with_its_schedulers_claim() -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod that asks for GPUs as a resource for which a DeviceClass stands: the host's scheduler makes a claim beside it."""
    pod = host_pod(gpus=2, status={"phase": "Running"})
    users = [{"resource": "pods", "name": "train-0-x", "uid": "u1"}]
    noted = {"labels": {}, "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    return pod, host_claim(exactly("container-0-request-0"), results=("container-0-request-0",) * 2, users=users, meta=noted)


def seconds_of(pod: dict[str, Any], claim: dict[str, Any]) -> int:
    meter = Meter(at(10))
    found, had = held_of(pod), claimed_of(claim)
    assert found is not None
    meter.see(found)
    if had is not None:
        meter.see_claim(had, None)
    total = counted(meter, at(20))
    return (total.used + total.idle) // 1000


def test_devices_that_a_pod_asks_for_are_not_counted_again_by_the_claim_that_the_scheduler_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert seconds_of(*pod_with_its_schedulers_claim()) == 2 * 10
    # The positive control: without the rule they are.
    monkeypatch.setattr(reading.labels, "is_mirrored", lambda _: True)
    assert seconds_of(*pod_with_its_schedulers_claim()) == 2 * 10 + 2 * 8


def test_a_pod_with_devices_and_a_claim_counts_both_each_once() -> None:
    pod, claim = pod_with_its_schedulers_claim()
    pod["spec"]["resourceClaims"] = [{"name": "x", "resourceClaimName": "mine-x"}]
    claim["metadata"]["labels"] = {labels.SYNCED: labels.SYNCED_BY_SYNCER}
    assert seconds_of(pod, claim) == 2 * 10 + 2 * 8


def test_a_pod_with_claims_alone_is_known_and_holds_nothing_itself() -> None:
    pod = host_pod(gpus=0, spec={"resourceClaims": [{"name": "x", "resourceClaimName": "mine-x"}]})
    found = held_of(pod)
    assert found is not None
    assert (found.devices, found.since) == ({}, at(10))
