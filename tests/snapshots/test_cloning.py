"""Which parts of a store become a clone's own: every rule, on values as API servers store them; and hostile bytes."""

import base64
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl.secret import SecretBox

from bulkhead.api import names
from bulkhead.snapshots import protobuf
from bulkhead.snapshots.cloning import BEHIND, JUDGED, WHOLE, CloneError, Cloning, Own, What, fits
from bulkhead.snapshots.protobuf import ProtobufError

FORMER, OWN = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
UID: Final = "33333333-2222-3333-4444-555555555555"
MINE: Final = Own("10.112.64.0/22", "10.112.4.0/22", UID, key=OWN, former_key=FORMER, slurm=True)


def message(**contents: bytes | list[bytes]) -> bytes:
    """A message: `_3=b"x"` is field 3."""
    fields = {int(name[1:]): value if isinstance(value, list) else [value] for name, value in contents.items()}
    return protobuf.changed(b"", fields)


def stored(*, meta: bytes = b"", spec: bytes = b"", more: bytes = b"") -> bytes:
    return b"k8s\x00" + message(_1=message(_1=b"v1"), _2=message(_1=meta, _2=spec) + more)


def cloning(own: Own = MINE) -> Cloning:
    return Cloning(own)


def entry(key: str, value: str) -> bytes:
    return message(_1=key.encode(), _2=value.encode())


def part(value: bytes | None, *path: int) -> bytes:
    assert value is not None
    found = protobuf.object_in(value)
    for number in path:
        found = protobuf.field(found, number)
    return found


def service(address: str, *, selects: bool = True) -> bytes:
    selector = {"_2": entry("app", "web")} if selects else {}
    return stored(
        spec=message(_3=address.encode(), _18=address.encode(), _4=b"ClusterIP", **selector), more=message(_3=b"status")
    )


def sealed(plain: bytes, key: str = FORMER) -> bytes:
    box = SecretBox(base64.b64decode(key))
    return b"k8s:enc:secretbox:v1:key1:" + bytes(box.encrypt(plain))


def opened(value: bytes | None, key: str = OWN) -> bytes:
    assert value is not None
    return SecretBox(base64.b64decode(key)).decrypt(value.removeprefix(b"k8s:enc:secretbox:v1:key1:"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("10.112.4.1", "10.112.64.1"),
        ("10.112.7.255", "10.112.67.255"),
        ("None", "None"),
        ("", ""),
        ("192.0.2.1", "192.0.2.1"),
    ],
)
def test_a_service_has_the_same_place_in_the_clones_slice(before: str, after: str) -> None:
    verdict = cloning().judge("services/specs/", "/registry/services/specs/default/web", service(before))
    assert (part(verdict.value, 2, 3), part(verdict.value, 2, 18)) == (after.encode(), after.encode())
    # Load balancers of the original are not the clone's.
    assert part(verdict.value, 3) == b""
    assert part(verdict.value, 2, 4) == b"ClusterIP"


def test_an_address_without_a_place_is_refused_by_name() -> None:
    small = replace(MINE, service_slice="10.112.64.0/24")
    with pytest.raises(CloneError, match=r"default/web has address 10\.112\.7\.1"):
        cloning(small).judge("services/specs/", "/registry/services/specs/default/web", service("10.112.7.1"))
    assert (fits("10.112.64.0/22", "10.112.4.0/22"), fits("10.112.64.0/23", "10.112.4.0/22")) == (True, False)


def test_endpoints_that_a_controller_makes_stay_behind_and_others_come_along() -> None:
    judging = cloning()
    for name, selects in (("web", True), ("outside", False)):
        judging.judge("services/specs/", f"/registry/services/specs/default/{name}", service("10.112.4.9", selects=selects))

    def kept(name: str) -> bool:
        return judging.judge("services/endpoints/", f"/registry/services/endpoints/default/{name}", stored()).keep

    assert (kept("web"), kept("outside"), kept("kubernetes")) == (False, True, False)

    def slice_kept(name: str, by: str) -> bool:
        meta = message(_11=entry("endpointslice.kubernetes.io/managed-by", by)) if by else b""
        return judging.judge("endpointslices/", f"/registry/endpointslices/default/{name}", stored(meta=meta)).keep

    assert slice_kept("outside-1", "")
    assert slice_kept("outside-2", "an operator")
    assert not slice_kept("web-1", "endpointslice-controller.k8s.io")
    assert not slice_kept("web-2", "endpointslicemirroring-controller.k8s.io")
    assert not slice_kept("kubernetes", "")


def test_a_claim_is_bound_to_nothing() -> None:
    noted = [
        entry("pv.kubernetes.io/bind-completed", "yes"),
        entry("mine", "kept"),
        entry("volume.kubernetes.io/selected-node", "n"),
    ]
    meta = message(_5=b"uid", _12=noted)
    spec = message(_1=b"ReadWriteOnce", _3=b"of-red", _5=b"fast", _7=b"snapshot", _8=b"snapshot")
    value = stored(meta=meta, spec=spec, more=message(_3=message(_1=b"Bound", _3=b"1Gi")))
    verdict = cloning().judge("persistentvolumeclaims/", "/registry/persistentvolumeclaims/default/data", value)
    assert part(verdict.value, 2) == message(_1=b"ReadWriteOnce", _5=b"fast")
    assert part(verdict.value, 3) == message(_1=b"Pending")
    assert part(verdict.value, 1) == message(_5=b"uid", _12=entry("mine", "kept"))
    shared = stored(meta=message(_11=entry("bulkhead.dev/shared-volume", "datasets")), spec=spec)
    verdict = cloning().judge("persistentvolumeclaims/", "/registry/persistentvolumeclaims/default/shared.ro.a", shared)
    assert (verdict.keep, verdict.value) == (False, None)


def test_pods_stay_behind_and_those_without_a_controller_are_named() -> None:
    judging = cloning()
    controller = b"\x30\x01"  # field 6, true
    for name, owner in (("web-1", message(_1=b"ReplicaSet") + controller), ("alone", b""), ("owned", message(_1=b"Job"))):
        meta = message(_13=owner) if owner else b""
        verdict = judging.judge("pods/", f"/registry/pods/default/{name}", stored(meta=meta))
        assert (verdict.keep, verdict.value) == (False, None)
    assert judging.alone == ["default/alone", "default/owned"]
    assert (judging.counted[What.RECREATED], judging.counted[What.ALONE]) == (1, 2)


def test_secrets_have_the_clones_key_and_tokens_are_gone() -> None:
    plain = stored(more=message(_2=entry("a", "b"), _3=b"Opaque"))
    key = "/registry/secrets/default/password"
    verdict = cloning().judge("secrets/", key, sealed(plain))
    assert opened(verdict.value) == plain
    # Members of a plane make the same bytes; another Secret of the same content has others.
    assert cloning().judge("secrets/", key, sealed(plain)) == verdict
    assert cloning().judge("secrets/", f"{key}2", sealed(plain)) != verdict
    # One that was never encrypted is from now on.
    assert opened(cloning().judge("secrets/", key, plain).value) == plain
    token = stored(more=message(_2=entry("token", "of red"), _3=b"kubernetes.io/service-account-token"))
    made = opened(cloning().judge("secrets/", key, sealed(token)).value)
    assert b"of red" not in made
    assert part(made, 3) == b"kubernetes.io/service-account-token"


MARKED: Final = message(_11=entry("app.kubernetes.io/managed-by", "bulkhead"))


@pytest.mark.parametrize("meta", [MARKED, b""], ids=["with its label", "of which its tenant took the label"])
def test_what_the_controller_makes_for_slurm_is_made_again(meta: bytes) -> None:
    judging = cloning()
    found = [
        judging.judge("secrets/", f"/registry/secrets/slurm/{name}", sealed(stored(meta=meta))) for name in names.SLURM_SECRETS
    ]
    found += [
        judging.judge("configmaps/", f"/registry/configmaps/slurm/{name}", stored(meta=meta))
        for name in names.SLURM_CONFIG_MAPS
    ]
    assert {(verdict.keep, verdict.value) for verdict in found} == {(False, None)}
    worker = judging.judge("pods/", "/registry/pods/slurm/worker-0", stored(meta=MARKED))
    assert (worker.keep, worker.value, judging.alone) == (False, None, [])
    assert judging.counted == {What.OTHER: len(found) + 1}


@pytest.mark.parametrize(
    ("own", "place"),
    [
        (MINE, "team/slurm-keys"),
        (MINE, "slurm/mine"),
        (MINE, "slurm2/slurm-config"),
        # Without a cluster of the platform's the namespace may be that of an operator of the tenant's own.
        (replace(MINE, slurm=False), "slurm/slurm-keys"),
        (replace(MINE, slurm=False), "slurm/slurm-config"),
    ],
)
def test_what_a_tenant_has_labelled_as_the_platforms_comes_along(own: Own, place: str) -> None:
    """Any user of a plane writes a label, and what is left behind is lost."""
    plain = stored(meta=MARKED, more=message(_2=entry("a", "b"), _3=b"Opaque"))
    verdict = cloning(own).judge("secrets/", f"/registry/secrets/{place}", sealed(plain))
    assert opened(verdict.value) == plain
    assert cloning(own).judge("configmaps/", f"/registry/configmaps/{place}", stored(meta=MARKED)).keep


def test_a_secret_that_cannot_be_read_is_refused_and_not_quoted() -> None:
    with pytest.raises(CloneError, match="cannot be decrypted with the key of the snapshot"):
        cloning().judge("secrets/", "/registry/secrets/default/a", sealed(b"secret words", OWN))
    with pytest.raises(CloneError, match="in another way"):
        cloning().judge("secrets/", "/registry/secrets/default/a", b"k8s:enc:aescbc:v1:key1:xyz")
    with pytest.raises(CloneError, match="is not one"):
        cloning(replace(MINE, former_key="short"))
    assert FORMER not in repr(MINE)
    assert OWN not in repr(MINE)


def test_the_cluster_and_devices_are_the_clones_own() -> None:
    value = stored(meta=message(_1=b"kube-system", _5=b"of red"))
    verdict = cloning().judge("namespaces/kube-system", "/registry/namespaces/kube-system", value)
    assert part(verdict.value, 1, 5) == UID.encode()
    assert cloning().judge("namespaces/kube-system", "/registry/namespaces/kube-system-2", value).keep
    claim = stored(spec=b"\x0a\x01a", more=message(_3=b"\x0a\x01b"))
    verdict = cloning().judge("resourceclaims/", "/registry/resourceclaims/default/gpu", claim)
    assert (part(verdict.value, 2), part(verdict.value, 3)) == (b"\x0a\x01a", b"")
    of_pod = stored(meta=message(_13=message(_1=b"Pod")))
    assert not cloning().judge("resourceclaims/", "/registry/resourceclaims/default/gpu", of_pod).keep
    for name, keeps in (("kube-root-ca.crt", False), ("extension-apiserver-authentication", False), ("settings", True)):
        assert cloning().judge("configmaps/", f"/registry/configmaps/default/{name}", stored()).keep is keeps


def test_no_scope_contains_another() -> None:
    scopes = (*WHOLE, *JUDGED)
    assert not [(a, b) for a in scopes for b in scopes if a != b and a.startswith(b)]
    for named in (
        "minions/",
        "leases/",
        "peerserverleases/",
        "persistentvolumes/",
        "ipaddresses/",
        "servicecidrs/",
        "masterleases/",
        "ranges/",
    ):
        assert named in BEHIND
    assert "certificatesigningrequests/" in BEHIND
    assert "pods/" in WHOLE


@given(st.binary(max_size=200), st.sampled_from(JUDGED))
def test_hostile_bytes_are_refused_or_judged_and_nothing_else(data: bytes, scope: str) -> None:
    for value in (data, b"k8s\x00" + data, b"k8s\x00" + message(_2=data), b"k8s:enc:secretbox:v1:" + data):
        try:
            cloning().judge(scope, f"/registry/{scope}default/x", value)
        except CloneError:
            continue


@given(st.binary(max_size=300))
def test_what_is_not_changed_keeps_its_bytes(data: bytes) -> None:
    try:
        fields = protobuf.fields(data)
    except ProtobufError:
        return
    assert b"".join(found.raw for found in fields) == data
    assert protobuf.changed(data, {}) == data
