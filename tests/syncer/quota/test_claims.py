"""The syncer's own count of accelerators: the limit holds whatever the host's quota says, and nothing is counted twice."""

from typing import Any

import pytest

from bulkhead.kube.informer import Change
from bulkhead.kube.objects import Key, Meta
from syncer.quota.claims import Claims
from syncer.translate import Untranslatable
from tests.kit.fakeclock import FakeClock

GPU = "nvidia.com/gpu"
QUOTA = {"metadata": {"name": "tenant-quota"}, "spec": {"hard": {f"requests.{GPU}": "4", "count/pods": "100"}}}


def pod(gpus: int, *, phase: str = "Pending", inits: tuple[int, ...] = ()) -> dict[str, Any]:
    def container(amount: int) -> dict[str, Any]:
        return {"resources": {"requests": {GPU: str(amount)}} if amount else {}}

    spec = {"containers": [container(gpus)], "initContainers": [container(each) for each in inits]}
    return {"spec": spec, "status": {"phase": phase}}


def key(name: str) -> Key:
    return Key("work", name)


def change(name: str, kind: Any = "added") -> Change:
    meta: Any = Meta
    return Change(kind, key(name), meta)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def claims(clock: FakeClock) -> Claims:
    return Claims([GPU], {GPU: 4}, clock, hard=lambda: QUOTA)


def test_creates_that_the_cache_does_not_show_yet_count(claims: Claims) -> None:
    for number in range(4):
        claims.claim(key(f"p{number}"), pod(1))
    with pytest.raises(Untranslatable, match=r"asked for 1 nvidia.com/gpu, 4 of 4 are in use"):
        claims.claim(key("p4"), pod(1))


def test_a_pod_counts_once_when_it_shows(claims: Claims) -> None:
    claims.claim(key("a"), pod(3))
    claims.seen(change("a"), pod(3))
    assert claims.used(GPU) == 3
    claims.claim(key("b"), pod(1))
    assert claims.used(GPU) == 4


@pytest.mark.parametrize(
    ("kind", "now"), [("deleted", None), ("modified", pod(4, phase="Succeeded")), ("modified", pod(4, phase="Failed"))]
)
def test_an_end_makes_room(claims: Claims, kind: str, now: dict[str, Any] | None) -> None:
    claims.seen(change("a"), pod(4, phase="Running"))
    claims.seen(change("a", kind), now)
    assert claims.used(GPU) == 0


def test_a_failed_create_makes_room_and_a_repeated_one_counts_once(claims: Claims) -> None:
    claims.claim(key("a"), pod(4))
    claims.claim(key("a"), pod(4))
    assert claims.used(GPU) == 4
    claims.drop(key("a"))
    assert claims.used(GPU) == 0


def test_a_create_that_never_shows_is_forgotten_in_the_end(claims: Claims, clock: FakeClock) -> None:
    claims.claim(key("a"), pod(4))
    clock.advance(61)
    assert claims.used(GPU) == 0


def limited_to(clock: FakeClock, hard: dict[str, Any] | None, settings: dict[str, int]) -> Claims:
    return Claims([GPU], settings, clock, hard=lambda: None if hard is None else {"spec": {"hard": hard}})


@pytest.mark.parametrize("hard", [None, {}, {"pods": "1k"}])
def test_the_settings_limit_what_the_host_does_not_and_an_unlimited_resource_is_zero(
    clock: FakeClock, hard: dict[str, Any] | None
) -> None:
    claims = limited_to(clock, hard, {GPU: 2})
    claims.claim(key("a"), pod(2))
    with pytest.raises(Untranslatable, match="2 of 2 are in use"):
        claims.claim(key("b"), pod(1))
    claims = limited_to(clock, hard, {})
    claims.claim(key("a"), pod(0))
    with pytest.raises(Untranslatable, match=r"asked for 1 nvidia.com/gpu, 0 of 0 are in use"):
        claims.claim(key("b"), pod(1))


@pytest.mark.parametrize(("hard", "limit"), [("1k", 1000), ("1e3", 1000), ("1Ki", 1024), ("2", 2), ("0", 0), ("many", 0)])
def test_a_limit_counts_however_the_host_spells_it(clock: FakeClock, hard: str, limit: int) -> None:
    claims = limited_to(clock, {f"requests.{GPU}": hard}, {GPU: 5})
    claims.claim(key("a"), pod(limit))
    with pytest.raises(Untranslatable, match=f"{limit} of {limit} are in use"):
        claims.claim(key("b"), pod(1))


def test_a_sidecar_and_the_init_container_beside_it_count_together(clock: FakeClock) -> None:
    made = pod(1, inits=(1, 3))
    made["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    claims = limited_to(clock, None, {GPU: 5})
    claims.claim(key("a"), made)
    assert claims.used(GPU) == 4


def test_what_asks_for_more_than_the_whole_quota_is_not_told_to_wait_for_what_is_free(clock: FakeClock) -> None:
    claims = limited_to(clock, None, {GPU: 4})
    with pytest.raises(Untranslatable, match=r"0 of 4 are in use. It is more than can ever be in use: the pod starts when the"):
        claims.claim(key("a"), pod(5))
    claims.claim(key("b"), pod(1))
    with pytest.raises(Untranslatable, match=r"1 of 4 are in use. The pod starts when enough is free."):
        claims.claim(key("c"), pod(4))


GPU_CLASS, IMEX_CLASS = "gpu.example.com", "imex.example.com"


def device_claim(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"devices": {"requests": list(requests)}}}


def exactly(count: int, name: str = GPU_CLASS) -> dict[str, Any]:
    return {"exactly": {"deviceClassName": name, "count": count}}


@pytest.fixture
def mixed(clock: FakeClock) -> Claims:
    limits = {GPU: 4, IMEX_CLASS: 2}
    return Claims([GPU], limits, clock, hard=lambda: QUOTA, stands_for={GPU_CLASS: GPU})


def test_pods_and_claims_share_what_a_device_class_stands_for(mixed: Claims) -> None:
    mixed.claim(key("p0"), pod(1))
    mixed.claim(key("c0"), device_claim(exactly(2)), "ResourceClaim")
    with pytest.raises(Untranslatable, match=r"asked for 2 nvidia.com/gpu, 3 of 4 are in use. The claim is made when"):
        mixed.claim(key("c1"), device_claim(exactly(1), exactly(1)), "ResourceClaim")
    with pytest.raises(Untranslatable, match=r"asked for 2 nvidia.com/gpu, 3 of 4 are in use. The pod starts when"):
        mixed.claim(key("p1"), pod(2))
    mixed.claim(key("p1"), pod(1))


def test_a_claim_counts_from_its_creation_until_it_is_gone_whatever_its_pods_do(mixed: Claims) -> None:
    mixed.claim(key("c0"), device_claim(exactly(4)), "ResourceClaim")
    mixed.seen(change("c0"), device_claim(exactly(4)) | {"status": {"phase": "Succeeded"}}, "ResourceClaim")
    assert mixed.used(GPU) == 4
    mixed.seen(change("c0", "deleted"), None, "ResourceClaim")
    assert mixed.used(GPU) == 0


def test_a_claim_that_was_there_before_the_syncer_counts(mixed: Claims) -> None:
    mixed.seen(change("c0"), device_claim(exactly(3)), "ResourceClaim")
    with pytest.raises(Untranslatable, match="3 of 4"):
        mixed.claim(key("p0"), pod(2))


def test_alternatives_count_by_their_most_and_a_class_of_its_own_by_its_number(mixed: Claims) -> None:
    ways = [{"deviceClassName": GPU_CLASS, "count": 3}, {"deviceClassName": IMEX_CLASS, "count": 2}]
    mixed.claim(key("c0"), device_claim({"firstAvailable": ways}), "ResourceClaim")
    assert (mixed.used(GPU), mixed.used(IMEX_CLASS)) == (3, 2)
    for asked in (
        exactly(2),
        exactly(1, IMEX_CLASS),
        exactly(1, "of.nobody"),
        {"exactly": {"deviceClassName": GPU_CLASS, "allocationMode": "All"}},
    ):
        with pytest.raises(Untranslatable, match="exceeded"):
            mixed.claim(key("c1"), device_claim(asked), "ResourceClaim")
