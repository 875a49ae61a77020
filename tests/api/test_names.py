"""Names: what a tenant may be called, and that no two virtual objects ever meet under one host name."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import labels, names

PARTS = st.tuples(*[st.text(max_size=80)] * 4)
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@pytest.mark.parametrize("name", ["a", "red", "red-2", "a" * 40, "work", "systems", "bulkhead"])
def test_good_tenant_names(name: str) -> None:
    assert names.check_tenant_name(name) == name
    assert names.plane_namespace(name) == f"bh-{name}"
    assert names.work_namespace(name) == f"bh-{name}-work"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "A",
        "Red",
        "1a",
        "-a",
        "a-",
        "a.b",
        "a_b",
        "a b",
        "a\n",
        "a" * 41,
        "a" * 253,
        "ä",
        "system",
        "bulkhead-system",
        "kube-system",
        "kube-x",
        "red-work",
    ],
)
def test_bad_tenant_names(name: str) -> None:
    with pytest.raises(names.InvalidTenantNameError):
        names.plane_namespace(name)


@given(st.from_regex(names.TENANT_NAME_PATTERN, fullmatch=True), st.from_regex(names.TENANT_NAME_PATTERN, fullmatch=True))
def test_namespaces_of_two_tenants_never_meet(one: str, other: str) -> None:
    try:
        spaces = [{names.plane_namespace(name), names.work_namespace(name)} for name in (one, other)]
    except names.InvalidTenantNameError:
        return
    assert one == other or not spaces[0] & spaces[1]
    assert all(len(space) <= 63 for each in spaces for space in each)


@given(PARTS)
def test_a_host_name_is_a_label_that_every_kind_takes(parts: tuple[str, str, str, str]) -> None:
    name = names.host_name(*parts)
    assert DNS_1035.fullmatch(name)
    assert names.host_name(*parts) == name


@given(PARTS, PARTS)
def test_different_objects_have_different_host_names(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (one == other) == (names.host_name(*one) == names.host_name(*other))


@given(PARTS, st.integers(min_value=1, max_value=8))
def test_moving_the_border_between_parts_changes_the_name(parts: tuple[str, str, str, str], cut: int) -> None:
    uid, kind, namespace, name = parts
    if len(namespace) < cut:
        return
    moved = (uid, kind, namespace[:-cut], namespace[-cut:] + name)
    assert names.host_name(*parts).rsplit("-", 1)[1] != names.host_name(*moved).rsplit("-", 1)[1]


def test_the_digest_is_fixed_for_good() -> None:
    """Another digest would orphan every host object that exists."""
    raw = b"".join(len(part).to_bytes(8, "big") + part for part in (b"uid", b"Pod", b"default", b"web-0"))
    assert names.host_name("uid", "Pod", "default", "web-0") == f"web-0-{hashlib.sha256(raw).hexdigest()[:32]}"


def test_marks() -> None:
    assert labels.tenant_selector("red", "syncer") == (
        "app.kubernetes.io/managed-by=bulkhead,bulkhead.dev/tenant=red,bulkhead.dev/component=syncer"
    )
    assert labels.is_mirrored({"metadata": {"labels": {labels.SYNCED: "syncer"}}})
    assert not labels.is_mirrored({"metadata": {"labels": None}})
    assert not labels.is_mirrored({})


@pytest.mark.parametrize(
    ("namespace", "tenant"),
    [("bh-red-work", "red"), ("bh-red", ""), ("red-work", ""), ("red", ""), ("bh-red-work-work", ""), ("kube-system", "")],
)
def test_a_namespace_is_a_tenants_by_its_whole_name(namespace: str, tenant: str) -> None:
    assert names.tenant_of_work(namespace) == tenant
    plane = names.tenant_of_plane(namespace)
    assert plane == ("red" if namespace == "bh-red" else "")


def test_a_name_in_a_certificate_is_bounded_in_bytes() -> None:
    assert len(names.host_user("é" * 40).encode()) <= 64
    assert names.host_user("é" * 40) != names.host_user("é" * 41)


def test_a_user_cannot_take_the_shortened_name_of_another() -> None:
    short = names.host_user("x" * 100)
    assert names.host_user(short.removeprefix(names.HOST_USER_PREFIX)) != short


def test_claims_of_shared_volumes_are_known_by_their_names() -> None:
    called = ("shared.ro.a", "shared.rw.a", "shared.a", "a")
    assert [each for each in called if names.is_shared_claim(each)] == ["shared.ro.a", "shared.rw.a"]
