"""Tenants, classes and key material for the controller's tests; the material is text, so golden files contain no secret."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from bulkhead.api.quantity import Amount
from controller.decide.admit import admit
from controller.decide.case import Admitted, Case
from controller.plane.pki import AUTHORITIES, Pair, leaves
from controller.plane.secrets import KeyMaterial
from controller.plane.sections import ControlPlane, Images, Installation, Offers, Quota
from controller.plane.spec import PlaneSpec
from controller.settings import Settings

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
SLICE = "10.112.4.0/22"
UID = "11111111-2222-3333-4444-555555555555"
IMAGES = Images(
    bulkhead="example.org/bulkhead:0.1.0",
    kubernetes="example.org/kubernetes:v1.36.3",
    etcd="example.org/etcd:v3.6.16",
    coredns="example.org/coredns:v1.15.0",
)
OBJECT_LIMITS = {"configmaps": "1000", "pods": "100", "secrets": "1000"}
# The fields of sections that are amounts by name.
AMOUNTS = ("limits", "object_limits", "ceilings")
WEBHOOK = {
    "url": "https://audit.example.org:8443/events/{tenant}",
    "address": "203.0.113.7",
    "secretName": "receiver",
    "certificateAuthority": "of the receiver",
}


PLANE = PlaneSpec(
    tenant="team-a",
    uid=UID,
    identity=UID,
    version="v1.36.3",
    service_slice=SLICE,
    images=IMAGES,
    control_plane=ControlPlane(priority_class="bulkhead-plane"),
    quota=Quota(
        limits=(("nvidia.com/gpu", Amount.read("24")),),
        object_limits=tuple((kind, Amount.read(most)) for kind, most in OBJECT_LIMITS.items()),
        container_defaults=(("cpu", "10m", ""), ("memory", "32Mi", "4Gi")),
    ),
    offers=Offers(default_priority_class="bulkhead-workload"),
    installation=Installation(host_api=(("192.0.2.10", 6443),)),
)


def plane_spec(**changes: Any) -> PlaneSpec:
    """A plane that differs from `PLANE` in the fields of `changed`."""
    return changed(PLANE, **changes)


def changed(spec: PlaneSpec, **changes: Any) -> PlaneSpec:
    """The plane with other fields. For a section only the fields that differ are needed, with amounts as they are written.

    `changed(spec, version="v1.36.4", quota={"limits": (("nvidia.com/gpu", "8"),)})`
    """
    return replace(spec, **{name: _section(getattr(spec, name), given) for name, given in changes.items()})


def _section(section: Any, given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    amounts = {field: tuple((name, Amount.read(value)) for name, value in given[field]) for field in AMOUNTS if field in given}
    return replace(section, **(given | amounts))


def material(spec: PlaneSpec) -> KeyMaterial:
    return KeyMaterial(
        authorities={
            name: Pair(f"certificate of CA {name}\n".encode(), f"key of CA {name}\n".encode()) for name in AUTHORITIES
        },
        leaves={name: Pair(f"certificate of {name}\n".encode(), f"key of {name}\n".encode()) for name in leaves(spec)},
        service_account=Pair(b"public service account key\n", b"private service account key\n"),
        encryption_key="ZW5jcnlwdGlvbiBrZXk=",
    )


def tenant(name: str = "team-a", *, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "apiVersion": "bulkhead.dev/v1alpha1",
        "kind": "Tenant",
        "metadata": {"name": name, "uid": UID, "generation": 3, "resourceVersion": "7"},
        "spec": {"class": "standard", "quota": {"resources": {"nvidia.com/gpu": {"nominal": 24}}}} | spec,
    }
    return made | ({"status": status} if status else {})


def tenant_class(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "bulkhead.dev/v1alpha1",
        "kind": "TenantClass",
        "metadata": {"name": "standard", "uid": "class-uid", "generation": 1},
        "spec": {"gpuResources": ["nvidia.com/gpu"], "quota": {"resources": {"nvidia.com/gpu": {"maxNominal": 64}}}} | spec,
    }


def case(asked: dict[str, Any], offer: dict[str, Any] | None, settings: Settings | None = None, **more: Any) -> Case:
    """A tenant before its admission."""
    return Case(asked, offer, settings or Settings(), NOW, **more)


def plane_for(asked: dict[str, Any], offer: dict[str, Any], settings: Settings | None = None, **more: Any) -> PlaneSpec:
    """The plane of an admitted tenant."""
    made = admit(case(asked, offer, settings, **more))
    assert isinstance(made, Admitted), made
    return replace(made.plane, service_slice=SLICE)
