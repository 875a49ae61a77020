"""The volumes under a plane's etcd: which grow, which stay, and what is reported of each. Objects in, decisions out."""

from typing import Any

import pytest

from bulkhead.api import labels
from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from controller.decide.fixed import as_it_began
from controller.decide.plan import plan
from controller.decide.planespec import plane_of
from controller.decide.storage import Growth, growths, room, verdict
from controller.existing import Existing, Slot, by_slot
from controller.plane.render import render
from controller.plane.spec import PLANE, PlaneSpec
from tests.kit.tenantsamples import case, material, plane_for, plane_spec, tenant, tenant_class

MUST = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"


def claim(number: int = 0, asks: str = "2Gi", has: str = "", *, bound: bool = True, name: str = "fast", **more: Any) -> Obj:
    """One volume; by default it has the size that it requests."""
    meta = {"name": f"data-plane-{number}", "namespace": "bh-team-a", "labels": labels.made_for("team-a", PLANE), "uid": "v"}
    status = {"phase": "Bound", "capacity": {"storage": has or asks}} if bound else {"phase": "Pending"}
    spec = {"resources": {"requests": {"storage": asks}}, "storageClassName": name}
    return {"kind": "PersistentVolumeClaim", "metadata": meta | more, "spec": spec, "status": status}


def saying(obj: Obj, **conditions: str) -> Obj:
    said = [{"type": type_, "status": "True", "message": message} for type_, message in conditions.items()]
    return obj | {"status": obj["status"] | {"conditions": said}}


def wanted(size: str = "4Gi", storage_class: str | None = None) -> PlaneSpec:
    return plane_spec(storage={"volume_size": size, "volume_class": storage_class})


def grows(*claims: Obj, spec: PlaneSpec | None = None) -> tuple[Growth, ...]:
    return growths(spec or wanted(), by_slot(claims))


def said(*claims: Obj, spec: PlaneSpec | None = None, **refused: str) -> tuple[str, Reason, str]:
    found = verdict(spec or wanted(), claims, {name.replace("_", "-"): words for name, words in refused.items()})
    assert found is not None
    return found.status, found.reason, found.message


def test_every_claim_that_has_less_grows_and_no_other() -> None:
    claims = (claim(0, "2Gi"), claim(1, "4096Mi"), claim(2, "8Gi"))
    assert grows(*claims) == (Growth("data-plane-0", "v", "4Gi"),)
    # One that was made later, from the template, as soon as it is bound.
    assert grows(claim(1, bound=False)) == ()
    assert grows(claim(1)) == (Growth("data-plane-1", "v", "4Gi"),)
    assert grows(claim(0, deletionTimestamp="2026-06-01T12:00:00Z")) == ()
    assert grows(claim(0, labels=labels.made_for("team-a", "syncer"))) == ()
    assert grows(claim(0, namespace="bh-team-a-work")) == ()
    assert grows(claim(0, "as much as there is")) == ()


def test_what_is_as_it_is_asked_for_says_so() -> None:
    assert said(claim(0, "4Gi"), claim(1, "4096Mi"))[:2] == ("True", Reason.APPLIED)
    assert "data-plane-0 4Gi, data-plane-1 4096Mi" in said(claim(0, "4Gi"), claim(1, "4096Mi"))[2]
    # A driver may give more than was asked for.
    assert said(claim(0, "4Gi", "10Gi"))[0] == "True"
    assert verdict(wanted(), (), {}) is None


def test_what_grows_says_how_far_it_is() -> None:
    assert said(claim(0)) == ("False", Reason.VOLUME_GROWING, "data-plane-0 grows from 2Gi to 4Gi")
    assert said(claim(0, "4Gi", "2Gi"))[2] == "data-plane-0 grows from 2Gi to 4Gi"
    assert "once it is bound" in said(claim(1, bound=False))[2]
    assert said(claim(1, "4Gi", bound=False))[0] == "True"
    pending = said(saying(claim(1, "4Gi", "2Gi"), FileSystemResizePending=""))[2]
    assert "FileSystemResizePending" in pending
    assert "kubectl delete pod plane-1 -n bh-team-a" in pending
    failed = said(saying(claim(0, "4Gi", "2Gi"), ControllerResizeError="no room\n" * 999))
    assert failed[:2] == ("False", Reason.VOLUME_GROWING)
    assert "no room" in failed[2]
    assert len(failed[2]) < 500


@pytest.mark.parametrize(
    ("claims", "spec", "refused", "words"),
    [
        (
            [claim(0)],
            wanted(),
            {"data_plane_0": MUST},
            ("stays at 2Gi", "4Gi is requested", "allowVolumeExpansion: true on StorageClass fast"),
        ),
        ([claim(0)], wanted(), {"data_plane_0": "cannot patch resource"}, ("helm upgrade",)),
        ([claim(0)], wanted(), {"data_plane_0": "no" * 999}, ("fix what the host reports",)),
        ([claim(0, "8Gi")], wanted(), {}, ("stays at 8Gi", "4Gi is requested", "never shrinks", "request 8Gi or more")),
        (
            [claim(0, "4Gi", name="slow")],
            wanted(storage_class="fast"),
            {},
            ("stays in StorageClass slow", "fast is requested", "cannot move"),
        ),
        ([claim(0), claim(1, "8Gi")], wanted(), {}, ("data-plane-1 stays at 8Gi", "data-plane-0 grows from 2Gi to 4Gi")),
    ],
)
def test_what_stays_says_from_to_and_what_to_do(
    claims: list[Obj], spec: PlaneSpec, refused: dict[str, str], words: tuple[str, ...]
) -> None:
    status, reason, message = said(*claims, spec=spec, **refused)
    assert (status, reason) == ("False", Reason.VOLUME_KEPT)
    assert all(word in message for word in words), message
    assert len(message) < 1000


def ran(**storage: Any) -> tuple[PlaneSpec, Existing]:
    spec = plane_for(tenant(), tenant_class(controlPlane={"storage": storage}))
    return spec, by_slot(render(spec, material(spec)).everything())


def test_the_template_stays_as_it_began_whatever_is_asked_for() -> None:
    _, there = ran(size="2Gi", className="fast")
    offer = tenant_class(controlPlane={"storage": {"size": "8Gi", "className": "other"}})
    spec = plane_for(tenant(), offer, existing=there)
    assert (spec.storage.template_size, spec.storage.template_class, spec.storage.volume_size, spec.storage.volume_class) == (
        "2Gi",
        "fast",
        "8Gi",
        "other",
    )
    slot = Slot("StatefulSet", "bh-team-a", "plane")
    made = plan(spec, material(spec), there)
    rendered = next(obj for obj in made.rendered.workloads if obj["kind"] == "StatefulSet")
    assert rendered["spec"]["volumeClaimTemplates"] == there[slot]["spec"]["volumeClaimTemplates"]
    assert made.kept == ()
    # One that is gone is made with what is asked for now.
    spec = plane_for(tenant(), offer)
    assert (spec.storage.template_size, spec.storage.template_class) == ("8Gi", "other")


def test_any_other_field_that_never_changes_stays_too_and_the_rest_is_applied() -> None:
    spec, there = ran()
    slot = Slot("StatefulSet", "bh-team-a", "plane")
    before = there[slot]
    other = {"serviceName": "older", "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 7}
    made = plan(spec, material(spec), {**there, slot: before | {"spec": before["spec"] | other}})
    rendered = next(obj for obj in made.rendered.workloads if obj["kind"] == "StatefulSet")
    assert (rendered["spec"]["serviceName"], rendered["spec"]["podManagementPolicy"]) == ("older", "OrderedReady")
    assert rendered["spec"]["revisionHistoryLimit"] == 2
    message = made.kept[0].message(spec)
    assert "spec.serviceName, spec.podManagementPolicy cannot change" in message
    assert "StatefulSet bh-team-a/plane" in message


def test_defaults_of_an_api_server_are_not_a_difference() -> None:
    _, there = ran(size="2048Mi")
    wanted_set = next(obj for obj in there.values() if obj["kind"] == "StatefulSet")
    template = wanted_set["spec"]["volumeClaimTemplates"][0]
    filled = template["spec"] | {"volumeMode": "Filesystem", "resources": {"requests": {"storage": "2Gi"}}}
    running = wanted_set | {
        "spec": wanted_set["spec"] | {"volumeClaimTemplates": [template | {"spec": filled, "status": {"phase": "Pending"}}]}
    }
    assert as_it_began(wanted_set, running) == (wanted_set, ())
    assert as_it_began(wanted_set, None) == (wanted_set, ())
    moved = {"volumeClaimTemplates": [template | {"spec": filled | {"accessModes": ["ReadWriteMany"]}}]}
    made, kept = as_it_began(wanted_set, wanted_set | {"spec": wanted_set["spec"] | moved})
    assert (made["spec"]["volumeClaimTemplates"], kept) == (moved["volumeClaimTemplates"], ("volumeClaimTemplates",))
    assert as_it_began(wanted_set, wanted_set | {"spec": wanted_set["spec"] | {"volumeClaimTemplates": []}})[1] == kept


def test_audit_files_are_as_large_as_the_volumes_are_and_not_as_they_are_to_be() -> None:
    assert room("8Gi", ()) == "8Gi"
    assert room("8Gi", (claim(0, "8Gi", "2Gi"), claim(1, "8Gi"))) == "2Gi"
    assert room("2Gi", (claim(0, "2Gi", "10Gi"),)) == "2Gi"
    assert room("2Gi", (claim(0, bound=False),)) == "2Gi"
    _, there = ran(size="2Gi")
    audit = {"retain": True, "maxSize": "1Gi"}
    offer = tenant_class(controlPlane={"storage": {"size": "32Gi"}}, audit=audit)
    small = plane_of(case(tenant(), offer, existing={**there, **by_slot([claim(0, "32Gi", "2Gi")])})).audit
    large = plane_of(case(tenant(), offer, existing={**there, **by_slot([claim(0, "32Gi")])})).audit
    assert small is not None
    assert large is not None
    assert (small.file_mib, large.file_mib) == (128, 1024)


def quota(offer: Obj, asked: Obj, *claims: Obj) -> int:
    made = plane_for(
        tenant(controlPlane={"storage": asked}), tenant_class(controlPlane={"storage": offer}), existing=by_slot(claims)
    )
    return made.storage.quota_mib


def test_the_quota_of_a_store_follows_the_volume_that_is_there() -> None:
    assert [quota({"maxSize": "100Gi"}, {"size": size}) for size in ("1Gi", "2Gi", "6Gi", "64Gi")] == [512, 512, 1536, 2048]
    # Growth is online: the plane starts again once its volumes have the space.
    assert quota({"maxSize": "100Gi"}, {"size": "6Gi"}, claim(0, "6Gi", "2Gi")) == 512
    assert quota({"maxSize": "100Gi"}, {"size": "6Gi"}, claim(0, "6Gi"), claim(1, "6Gi", "4Gi")) == 1024
    # What class or Tenant set stays.
    assert quota({"maxSize": "100Gi", "quota": "512Mi"}, {"size": "6Gi"}) == 512
    assert quota({"maxSize": "100Gi", "maxQuota": "1Gi"}, {"size": "6Gi"}) == 1024
    assert quota({"maxSize": "100Gi"}, {"size": "6Gi", "quota": "600Mi"}) == 600


def test_the_memory_of_the_programs_follows_the_quota_that_follows_the_volume() -> None:
    made = plane_for(
        tenant(controlPlane={"storage": {"size": "6Gi"}}), tenant_class(controlPlane={"storage": {"maxSize": "8Gi"}})
    )
    assert made.budgets.apiserver.memory_limit_mib == 1024 + 4 * 1536
