"""Shared volumes, decided on frozen data: what a SharedVolume comes to for one tenant, and the steps on both sides."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.shares.content import Absent, Unusable
from controller.shares.decide import Space
from controller.shares.spec import Where
from controller.shares.volumes import decide as module
from controller.shares.volumes.decide import Bind, Claim, Make, Release, Remove, There, Volume, in_plane, on_host
from controller.shares.volumes.objects import host_claim, host_volume, plane_claim, plane_volume, plane_volume_name
from controller.shares.volumes.offers import TYPES, Grant, Granted, Offer, Written, granted, is_for, offer_of, written_of

WORK = "bh-team-a-work"
SPACES = (Space("default"), Space("kube-system"), Space("old", going=True))
NFS = {"server": "nfs.example.org", "path": "/export/data"}


def shared(name: str = "data", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"nfs": NFS, "classes": ["standard"], **spec}}


def of_volume(spec: dict[str, Any], name: str = "data", **more: Any) -> Offer | Unusable:
    made = {"metadata": {"name": name}, "spec": {"persistentVolumeName": "pv", **more}}
    return offer_of(made, {"metadata": {"name": "pv"}, "spec": spec}, TYPES)


def grant(tenant: str = "team-a", **spec: Any) -> Grant:
    found = given_of({"data": offer_of(shared(**spec), None, TYPES)}, tenant)
    assert not found.held
    assert not found.refused
    return found.grants[0]


def given_of(offers: dict[str, Offer | Unusable], tenant: str = "team-a") -> Granted:
    return granted(offers, tenant, offers)


# -- what a SharedVolume comes to


def test_a_tenant_is_given_a_directory_of_its_own_below_the_export() -> None:
    made = host_volume(grant(subPath="teams/{tenant}/in"))
    assert made["spec"]["nfs"] == {"server": "nfs.example.org", "path": "/export/data/teams/team-a/in", "readOnly": True}
    assert made["spec"]["mountOptions"] == ["ro"]
    assert made["spec"]["accessModes"] == ["ReadOnlyMany"]
    assert made["spec"]["claimRef"]["namespace"] == WORK
    assert made["spec"]["claimRef"]["name"] == "shared.ro.data"
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert made["metadata"]["name"].startswith("bh-team-a-shared-data-")


def test_a_share_that_can_be_written_to_says_so_by_its_name() -> None:
    given = grant(readOnly=False, mountOptions=["nfsvers=4.2", "ro"])
    assert given.claim == "shared.rw.data"
    spec = host_volume(given)["spec"]
    assert (spec["nfs"]["readOnly"], spec["mountOptions"], spec["accessModes"]) == (False, ["nfsvers=4.2"], ["ReadWriteMany"])
    assert given.volume != grant().volume


def test_no_two_tenants_and_shares_have_one_volume() -> None:
    one = Grant("x-shared-y", "a", "nfs", {}, True, "1Gi", (), {}, Where())
    other = Grant("y", "a-shared-x", "nfs", {}, True, "1Gi", (), {}, Where())
    assert one.volume != other.volume


def test_a_hundred_tenants_have_the_same_bytes_by_a_volume_of_their_own() -> None:
    made = [host_volume(grant(f"team-{number}")) for number in range(100)]
    assert len({each["metadata"]["name"] for each in made}) == 100
    assert len({each["spec"]["claimRef"]["namespace"] for each in made}) == 100
    assert {str(each["spec"]["nfs"]) for each in made} == {str(NFS | {"readOnly": True})}


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, {"driver": "d", "volumeHandle": "h", "readOnly": True}),
        ({"nfs": NFS}, NFS | {"readOnly": True}),
        ({"local": {"path": "/srv/data", "fsType": "ext4"}}, {"path": "/srv/data", "fsType": "ext4"}),
    ],
    ids=["csi", "nfs", "local"],
)
def test_a_volume_of_the_host_is_shared_as_it_is(source: dict[str, Any], kept: dict[str, Any]) -> None:
    affinity = {"required": {"nodeSelectorTerms": []}}
    offer = of_volume({**source, "nodeAffinity": affinity, "mountOptions": ["noatime"]})
    spec = host_volume(given_of({"data": offer}).grants[0])["spec"]
    assert spec[next(iter(source))] == kept
    assert spec["nodeAffinity"] == affinity
    assert spec["mountOptions"] == ["noatime", "ro"]
    assert set(spec) & {"hostPath", "nfs", "csi", "local"} == set(source)


REFUSED: dict[str, tuple[Offer | Unusable, str]] = {
    "hostPath": (of_volume({"hostPath": {"path": "/"}}), "must be of one of the types"),
    "a block device": (of_volume({"csi": {"driver": "d"}, "volumeMode": "Block"}), "block device"),
    "a tenant's own": (of_volume({"nfs": NFS, "claimRef": {"namespace": "bh-team-b-work"}}), "claim of a tenant"),
    "a directory of a CSI volume": (of_volume({"csi": {"driver": "d"}}, subPath="x"), "shared as a whole"),
    "a local path upwards": (of_volume({"local": {"path": "/srv/../etc"}}), "absolute path"),
    "a template upwards": (offer_of(shared(subPath="../x"), None, TYPES), "every part must name a subdirectory"),
    "an absolute one": (offer_of(shared(subPath="/etc"), None, TYPES), "absolute"),
    "a type that is not shared": (offer_of(shared(), None, ("csi",)), "shares.volumeTypes"),
    "a volume that is not there": (offer_of(shared(persistentVolumeName="pv"), Absent(), TYPES), "has no PersistentVolume pv"),
    "one that was not read": (offer_of(shared(), Unusable("no answer"), TYPES), "no answer"),
    "nothing at all": (offer_of({"metadata": {"name": "x"}, "spec": "x"}, None, TYPES), "absolute path"),
    "a name with dots": (offer_of(shared(name="a.b"), None, TYPES), "DNS label"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_shared_says_why(case: str) -> None:
    found, words = REFUSED[case]
    assert isinstance(found, Unusable)
    assert words in found.why


def test_a_part_of_a_share_is_not_shared_again() -> None:
    volume = host_volume(grant())
    found = offer_of({"metadata": {"name": "again"}, "spec": {"persistentVolumeName": "x"}}, volume, TYPES)
    assert isinstance(found, Unusable)
    assert "was itself created for a shared volume of a tenant" in found.why


def test_it_is_given_by_name_or_by_class() -> None:
    assert is_for(shared(), "anybody", "standard")
    assert is_for(shared(classes=[], tenants=["team-a"]), "team-a", "large")
    assert not is_for(shared(classes=[], tenants=["team-a"]), "team-b", "large")
    assert not is_for({"spec": {"tenants": "team-a", "classes": None}}, "t", "")


def test_what_lies_below_a_directory_that_tenants_write_to_is_refused() -> None:
    """A tenant could put a link there, and the node would follow it to any file."""
    writable = offer_of(shared("all", subPath="teams", readOnly=False), None, TYPES)
    below = offer_of(shared("mine", subPath="teams/{tenant}"), None, TYPES)
    elsewhere = offer_of(shared("other", nfs=NFS | {"server": "another"}, subPath="teams/{tenant}"), None, TYPES)
    found = given_of({"all": writable, "mine": below, "other": elsewhere})
    assert [each.name for each in found.grants] == ["all", "other"]
    assert "SharedVolume all lets tenants write to" in found.refused["mine"]
    readable = offer_of(shared("all", subPath="teams"), None, TYPES)
    assert not given_of({"all": readable, "mine": below}).refused


def mounted(*parts: Grant) -> list[Written]:
    """What is read of the host's volumes."""
    return [found for each in parts if (found := written_of(host_volume(each))) is not None]


@pytest.mark.parametrize("now", [None, Unusable("429"), offer_of(shared("all", subPath="teams"), None, TYPES)])
def test_what_pods_may_still_write_to_is_a_trap_whatever_its_shared_volume_says_now(now: Offer | Unusable | None) -> None:
    """Deleted, not to be read, or read-only since: the volumes that there are say what is mounted, after a restart too."""
    offers: dict[str, Offer | Unusable] = {"mine": offer_of(shared("mine", subPath="teams/{tenant}"), None, TYPES)}
    offers |= {"all": now} if now is not None else {}
    was = given_of({"all": offer_of(shared("all", subPath="teams", readOnly=False), None, TYPES)}, "team-b").grants
    found = granted(offers, "team-a", {"mine"}, mounted(*was))
    assert "pods of tenant team-b may still write to by an earlier SharedVolume all" in found.refused["mine"]
    assert not found.grants
    # Once its volume is gone, and where it was read-only all the time, it is given.
    assert granted(offers, "team-a", {"mine"}).grants
    readable = given_of({"all": offer_of(shared("all", subPath="teams"), None, TYPES)}, "team-b").grants
    assert granted(offers, "team-a", {"mine"}, mounted(*readable)).grants


def test_only_what_lies_below_is_a_trap_and_never_a_shared_volume_to_itself() -> None:
    for name, spec in {
        "the same directory": {"subPath": "teams"},
        "beside it": {"subPath": "other/{tenant}"},
        "another server": {"subPath": "teams/{tenant}", "nfs": NFS | {"server": "another"}},
    }.items():
        offers = {"mine": offer_of(shared("mine", **spec), None, TYPES)}
        was = given_of({"all": offer_of(shared("all", subPath="teams", readOnly=False), None, TYPES)}, "team-b").grants
        assert not granted(offers, "team-a", {"mine"}, mounted(*was)).refused, name
    own = given_of({"home": offer_of(shared("home", subPath="teams/{tenant}", readOnly=False), None, TYPES)}, "team-b").grants
    offers = {"home": offer_of(shared("home", subPath="teams/{tenant}"), None, TYPES)}
    assert not granted(offers, "team-b", {"home"}, mounted(*own)).refused


@pytest.mark.parametrize(
    "volume",
    [
        {},
        {"metadata": {"labels": {"bulkhead.dev/shared-volume": "x"}}, "spec": {"nfs": {"path": "/a/../b"}}},
        {"metadata": {"labels": {"bulkhead.dev/shared-volume": "x"}}, "spec": {"csi": {"driver": "d"}}},
        {"metadata": {"labels": {}}, "spec": {"nfs": NFS}},
        {"metadata": None, "spec": []},
    ],
)
def test_of_another_volume_nothing_is_read(volume: dict[str, Any]) -> None:
    assert written_of(volume) is None


# -- the host


GRANT = grant()
MADE = Volume(GRANT.volume, "data", "v1", "Bound", GRANT.digest)
CLAIM = Claim(WORK, GRANT.claim, "data", "c1", "Bound", GRANT.volume)


def test_volume_and_claim_are_made_and_ready_once_they_are_bound() -> None:
    made = on_host([GRANT], There(), (), WORK)
    assert made.steps == (Make("volume", GRANT, ""), Make("claim", GRANT, WORK))
    assert not made.ready
    done = on_host([GRANT], There((MADE,), (CLAIM,)), (), WORK)
    assert (done.steps, done.ready, done.waits) == ((), {GRANT.claim}, ())


@pytest.mark.parametrize(
    ("volume", "claim"),
    [
        (Volume(GRANT.volume, "data", "v1", "Bound", "another"), CLAIM),
        (Volume(GRANT.volume, "data", "v1", "Released", GRANT.digest), CLAIM),
        (MADE, Claim(WORK, GRANT.claim, "data", "c1", "Lost", GRANT.volume)),
        (MADE, Claim(WORK, GRANT.claim, "data", "c1", "Bound", "another")),
        (None, CLAIM),
    ],
    ids=["another source", "released", "lost", "of another volume", "its volume is gone"],
)
def test_a_claim_that_does_not_fit_makes_way_and_then_its_volume(volume: Volume | None, claim: Claim) -> None:
    there = There((volume,) if volume else (), (claim,))
    made = on_host([GRANT], there, (), WORK)
    assert made.steps == (Remove("claim", WORK, claim.name, "c1"),)
    assert (made.ready, made.waits) == (frozenset(), (GRANT.claim,))


def test_a_volume_of_another_source_goes_once_its_claim_is_gone() -> None:
    stale = Volume(GRANT.volume, "data", "v1", "Bound", "another")
    assert on_host([GRANT], There((stale,)), (), WORK).steps == (Remove("volume", "", GRANT.volume, "v1"),)


def test_what_is_withdrawn_goes_claim_first() -> None:
    made = on_host([], There((MADE,), (CLAIM,)), (), WORK)
    assert made.steps == (Remove("claim", WORK, GRANT.claim, "c1"),)
    assert (made.leaving, made.waits) == ({GRANT.claim}, ())
    going = Claim(WORK, GRANT.claim, "data", "c1", "Bound", GRANT.volume, going=True)
    assert on_host([], There((MADE,), (going,)), (), WORK).steps == ()
    assert on_host([], There((MADE,)), (), WORK).steps == (Remove("volume", "", GRANT.volume, "v1"),)


def test_what_was_not_read_stays_as_it_is_and_can_be_used() -> None:
    made = on_host([], There((MADE,), (CLAIM,)), {"data"}, WORK)
    assert (made.steps, made.ready) == ((), {GRANT.claim})


# -- the plane


SHOWN = Volume(plane_volume_name(GRANT.claim, "default"), "data", "pv", "Bound")
BOUND = Claim("default", GRANT.claim, "data", "pc", "Bound", SHOWN.name)


def test_a_claim_is_shown_once_the_host_has_bound_it() -> None:
    assert in_plane([GRANT], (), SPACES, There(), ()).steps == ()
    made = in_plane([GRANT], {GRANT.claim}, SPACES, There(), ())
    assert made.steps == (Make("volume", GRANT, "default"), Make("claim", GRANT, "default"))
    pending = There((Volume(SHOWN.name, "data", "pv"),), (Claim("default", GRANT.claim, "data", "pc", "", SHOWN.name),))
    bind = in_plane([GRANT], {GRANT.claim}, SPACES, pending, ()).steps
    assert bind == (Bind("volume", GRANT, "default"), Bind("claim", GRANT, "default"))
    assert in_plane([GRANT], {GRANT.claim}, SPACES, There((SHOWN,), (BOUND,)), ()).steps == ()


def test_a_claim_goes_with_the_grant_and_its_volume_after_it() -> None:
    assert in_plane([], (), SPACES, There((SHOWN,), (BOUND,)), ()).steps == (Remove("claim", "default", GRANT.claim, "pc"),)
    gone = in_plane([], (), SPACES, There((SHOWN,)), ()).steps
    assert gone == (Release(SHOWN.name, "pv"), Remove("volume", "", SHOWN.name, "pv"))
    assert in_plane([], (), SPACES, There((SHOWN,), (BOUND,)), {"data"}).steps == ()
    # The host's claim is being recreated at the moment; running pods have theirs.
    assert in_plane([GRANT], (), SPACES, There((SHOWN,), (BOUND,)), ()).steps == ()


def test_a_plane_holds_no_more_claims_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CLAIMS", 2)
    made = in_plane([GRANT], {GRANT.claim}, [Space(f"n{number}") for number in range(5)], There(), ())
    assert (len(made.wanted), made.beyond) == (2, 3)


def test_nothing_of_the_hosts_storage_is_shown_in_the_plane() -> None:
    given = grant(subPath="teams/{tenant}")
    text = str((plane_volume(given, "default"), plane_claim(given, "default")))
    assert "nfs" not in text
    assert "export" not in text
    assert plane_claim(given, "default")["metadata"]["labels"]["bulkhead.dev/platform"] == "true"
    assert host_claim(given)["spec"]["resources"]["requests"] == {"storage": "1"}


phases = st.sampled_from(["", "Pending", "Bound", "Released", "Lost", "Failed"])
names = st.sampled_from([GRANT.volume, "other"])
volumes = st.lists(
    st.builds(Volume, names, st.just("data"), st.just("v"), phases, st.sampled_from([GRANT.digest, "x"]), st.booleans()),
    max_size=2,
    unique_by=lambda volume: volume.name,
)
claims = st.lists(
    st.builds(
        Claim, st.just(WORK), st.sampled_from([GRANT.claim, "shared.rw.x"]), st.just("data"), st.just("c"), phases, names
    ),
    max_size=2,
    unique_by=lambda claim: claim.name,
)


@given(st.booleans(), volumes, claims)
def test_no_claim_is_ready_that_leads_elsewhere_and_no_volume_goes_under_a_claim(
    wanted: bool, there: list[Volume], held: list[Claim]
) -> None:
    made = on_host([GRANT] if wanted else [], There(tuple(there), tuple(held)), (), WORK)
    by_name = {volume.name: volume for volume in there}
    for name in made.ready:
        claim = next(each for each in held if each.name == name)
        assert by_name[claim.volume].digest == GRANT.digest
        assert claim.phase == "Bound"
    for step in made.steps:
        if isinstance(step, Remove) and step.kind == "volume" and step.name == GRANT.volume:
            assert (GRANT.claim, GRANT.volume) not in {(claim.name, claim.volume) for claim in held}
