"""The fate of requests for user certificates: which are signed, with which user name, and for how long."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bulkhead.api.names import host_user
from controller.decide import logins
from controller.decide.logins import Deny, Later, Sign, judge, request_of, waits

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
TENANT = {"metadata": {"name": "red"}}


def request(**more: Any) -> dict[str, Any]:
    spec = {"username": "alice", "groups": ["ops"], "usages": ["client auth"], "signerName": "bulkhead.dev/tenant-admin"}
    meta = {"name": "r", "creationTimestamp": "2026-06-01T11:59:50Z", "labels": {"bulkhead.dev/tenant": "red"}}
    made: dict[str, Any] = {"metadata": meta, "spec": spec, "status": {}}
    for path, value in more.items():
        section, _, field = path.partition("_")
        made[section] = made[section] | {field: value}
    return made


def answer(*, tenant: Any = TENANT, allowed: bool = True, recent: int = 0, **more: Any) -> logins.Answer:
    return judge(request_of(request(**more)), tenant, allowed=allowed, recent=recent)


def test_who_may_gets_one_for_an_hour_at_most() -> None:
    assert answer() == Sign("bulkhead:host:alice", timedelta(hours=1))
    assert answer(spec_expirationSeconds=1200) == Sign("bulkhead:host:alice", timedelta(minutes=20))
    assert answer(spec_expirationSeconds=10**9) == Sign("bulkhead:host:alice", timedelta(hours=1))
    assert answer(spec_expirationSeconds=1) == Sign("bulkhead:host:alice", timedelta(minutes=10))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"allowed": False}, "may not login"),
        ({"tenant": None}, "there is no tenant 'red'"),
        ({"tenant": {"metadata": {"deletionTimestamp": "x"}}}, "there is no tenant"),
        ({"metadata_labels": {}, "tenant": None}, "no label"),
        ({"spec_username": ""}, "may not login"),
        ({"spec_usages": ["server auth"]}, "usages"),
        ({"spec_usages": ["client auth", "cert sign"]}, "usages"),
        ({"spec_usages": []}, "usages"),
        ({"recent": 30}, "within a minute"),
        ({"tenant": {**TENANT, "spec": {"access": {"revokedUsers": ["bob", "alice"]}}}}, "access.revokedUsers"),
        ({"tenant": {**TENANT, "spec": {"access": {"revokedUsers": ["bulkhead:host:alice"]}}}}, "access.revokedUsers"),
    ],
)
def test_what_is_refused_and_why(more: dict[str, Any], why: str) -> None:
    found = answer(**more)
    assert isinstance(found, Deny)
    assert why in found.why


@pytest.mark.parametrize("status", [{"conditions": [{"type": "Denied"}]}, {"certificate": "eA=="}])
def test_what_was_answered_is_left_alone_and_goes_after_a_while(status: dict[str, Any]) -> None:
    found = request_of(request() | {"status": status})
    assert not logins.is_open(found)
    assert not logins.is_over(found, found.created + timedelta(minutes=9, seconds=59))
    assert logins.is_over(found, found.created + timedelta(minutes=10))
    # An unanswered request never counts as finished.
    waiting = request_of(request())
    assert logins.is_open(waiting)
    assert not logins.is_over(waiting, waiting.created + timedelta(days=9))


def test_an_approval_of_another_user_does_not_replace_the_right() -> None:
    status = {"conditions": [{"type": "Approved"}]}
    assert isinstance(judge(request_of(request() | {"status": status}), TENANT, allowed=False, recent=0), Deny)


def test_a_tenant_that_cannot_sign_is_waited_for_but_not_for_ever() -> None:
    found = request_of(request())
    assert waits(found, NOW) == Later()
    assert isinstance(waits(found, NOW + timedelta(minutes=3)), Deny)


def test_a_name_without_room_ends_in_a_digest_and_stays_unique() -> None:
    long = [f"system:serviceaccount:{'n' * 60}:{each}" for each in ("a", "b")]
    names = [host_user(each) for each in long]
    assert len(set(names)) == 2
    assert all(len(each) == 64 and each.startswith("bulkhead:host:system:serviceaccount:nnn") for each in names)


def test_a_name_fits_into_a_certificate_by_its_bytes_and_ends_in_no_half_letter() -> None:
    name = host_user("oidc:" + "ж" * 40)
    assert len(name.encode()) <= 64
    assert name.startswith("bulkhead:host:oidc:жжж")
    assert name != host_user("oidc:" + "ж" * 41)


def test_no_name_equals_a_shortened_one() -> None:
    victim = host_user("system:serviceaccount:" + "n" * 60)
    assert host_user(victim.removeprefix("bulkhead:host:")) != victim


def test_a_user_who_is_revoked_by_their_name_in_a_planes_trail_gets_none() -> None:
    long = "system:serviceaccount:" + "n" * 60
    for listed in (long, host_user(long), host_user(long).removeprefix("bulkhead:host:")):
        found = answer(spec_username=long, tenant={**TENANT, "spec": {"access": {"revokedUsers": [listed]}}})
        assert isinstance(found, Deny)
        assert "access.revokedUsers" in found.why


def test_the_host_is_asked_about_all_that_it_vouches_for() -> None:
    obj = request(spec_extra={"scopes": ["a"]}, spec_uid="u")
    spec = logins.may_log_in(obj, request_of(obj))["spec"]
    assert (spec["user"], spec["groups"], spec["uid"], spec["extra"]) == ("alice", ["ops"], "u", {"scopes": ["a"]})
    assert spec["resourceAttributes"] == {"group": "bulkhead.dev", "resource": "tenants", "verb": "login", "name": "red"}


@pytest.mark.parametrize("junk", [{"spec": None}, {"status": []}, {"spec": {"expirationSeconds": "x", "usages": None}}])
def test_junk_is_refused_and_stops_nothing(junk: dict[str, Any]) -> None:
    found = judge(request_of(request() | junk), TENANT, allowed=False, recent=0)
    assert isinstance(found, Deny)
