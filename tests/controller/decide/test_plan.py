"""Plans: what is applied, what is deleted, and what a plane keeps of how it began."""

from dataclasses import replace
from typing import Any

from controller.decide.plan import Plan, plan
from controller.decide.planespec import as_it_began
from controller.existing import Existing, by_slot
from controller.plane import apiserver, etcd
from controller.plane.spec import PlaneSpec
from tests.kit.tenantsamples import changed, material, plane_spec


def test_left_overs_of_an_older_version_are_deleted_and_other_peoples_objects_are_not() -> None:
    spec = plane_spec()
    marks = {"app.kubernetes.io/managed-by": "bulkhead", "bulkhead.dev/tenant": "team-a"}

    def policy(name: str, labels: dict[str, str], kind: str = "NetworkPolicy") -> dict[str, Any]:
        meta = {"name": name, "namespace": "bh-team-a", "labels": labels, "uid": name}
        return {"apiVersion": "networking.k8s.io/v1", "kind": kind, "metadata": meta}

    existing = [
        policy("allow-everything", marks),
        policy("default-deny", marks),
        policy("another-admins", {}),
        policy("mirrored", marks | {"bulkhead.dev/managed-by": "syncer"}),
        policy("plane-identity", marks, "ConfigMap"),
    ]
    made = plan(spec, material(spec), by_slot(existing))
    assert [deletion.slot.name for deletion in made.deletions] == ["allow-everything"]


def test_dns_waits_for_the_plane_once_and_is_kept_afterwards() -> None:
    spec = plane_spec()
    made = plan(spec, material(spec), {})
    dns = made.rendered.followers[0]
    assert made.followers(plane_answers=False, existing={}) == ()
    assert made.followers(plane_answers=True, existing={}) == (dns,)
    assert made.followers(plane_answers=False, existing=by_slot([dns])) == (dns,)


def test_a_plane_stays_on_its_storage_class_when_the_default_changes() -> None:
    def storage_class(made: Plan) -> Any:
        (found,) = [obj for obj in made.rendered.workloads if obj["kind"] == "StatefulSet"]
        return found["spec"]["volumeClaimTemplates"][0]["spec"].get("storageClassName")

    spec = plane_spec()
    for before in ("slow", None):
        old = changed(spec, storage={"template_class": before})
        existing = by_slot(plan(old, material(old), {}).rendered.workloads)
        assert (
            storage_class(
                plan(as_it_began(changed(spec, storage={"template_class": "fast"}), existing), material(spec), existing)
            )
            == before
        )
    assert storage_class(plan(changed(spec, storage={"template_class": "fast"}), material(spec), {})) == "fast"


def test_a_plane_keeps_its_members_when_the_number_of_its_class_changes() -> None:
    def members(made: Plan) -> tuple[int, int]:
        (found,) = [obj for obj in made.rendered.workloads if obj["kind"] == "StatefulSet"]
        return found["spec"]["replicas"], etcd.members_of(found)

    for before, after in ((1, 3), (3, 1)):
        old, new = plane_spec(control_plane={"replicas": before}), plane_spec(control_plane={"replicas": after})
        existing = by_slot(plan(old, material(old), {}).rendered.workloads)
        assert members(plan(new, material(new), {})) == (after, after)
        assert members(plan(as_it_began(new, existing), material(new), existing)) == (before, before)
        # Scaled by hand, it is scaled back.
        (stateful_set,) = [obj for obj in existing.values() if obj["kind"] == "StatefulSet"]
        stateful_set["spec"]["replicas"] = 0
        assert members(plan(as_it_began(new, existing), material(new), existing)) == (before, before)


def test_a_plane_of_one_gets_two_more_members_only_if_its_tenant_asks_and_three_stay_three() -> None:
    one, three = plane_spec(), plane_spec(control_plane={"replicas": 3, "grows": True})
    began = by_slot(plan(one, material(one), {}).rendered.workloads)
    assert as_it_began(three, began).control_plane.replicas == 3
    assert as_it_began(plane_spec(control_plane={"replicas": 3}), began).control_plane.replicas == 1
    grown = by_slot(plan(three, material(three), {}).rendered.workloads)
    assert as_it_began(plane_spec(control_plane={"replicas": 1, "grows": True}), grown).control_plane.replicas == 3


def test_a_held_plane_of_one_is_not_scaled_with_the_flags_of_one() -> None:
    one, three = plane_spec(), plane_spec(control_plane={"replicas": 3, "grows": True})
    began = by_slot(plan(one, material(one), {}).rendered.workloads)
    made = plan(as_it_began(three, began), material(three), began, held=True)
    (found,) = [obj for obj in made.rendered.workloads if obj["kind"] == "StatefulSet"] or [
        obj for obj in began.values() if obj["kind"] == "StatefulSet"
    ]
    assert (found["spec"]["replicas"], etcd.members_of(found)) == (1, 1)


def test_a_plane_learns_to_end_soon_when_it_begins_or_with_another_image_and_is_not_restarted_for_it() -> None:
    def ends_soon(spec: PlaneSpec, existing: Existing) -> bool:
        made = plan(as_it_began(spec, existing), material(spec), existing)
        (found,) = [obj for obj in made.rendered.workloads if obj["kind"] == "StatefulSet"]
        servers = [
            container for container in found["spec"]["template"]["spec"]["containers"] if container["name"] == "kube-apiserver"
        ]
        return apiserver.ENDS_SOON in servers[0]["command"]

    former = plane_spec()
    later = replace(former, images=replace(former.images, kubernetes="docker.io/bulkhead/kubernetes:v1.36.4"))
    for knows, spec, expected in (
        (False, former, False),
        (False, later, True),
        (True, former, True),
        (True, later, True),
    ):
        begun = changed(former, control_plane={"ends_soon": knows})
        existing = by_slot(plan(begun, material(begun), {}).rendered.workloads)
        assert ends_soon(spec, existing) is expected
    assert ends_soon(former, {})
