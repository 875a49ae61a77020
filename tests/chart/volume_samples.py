"""Volumes and claims of shared volumes that the controller may make, and changed ones that its policies refuse."""

from typing import Any

from bulkhead.api.objects import Obj
from controller.plane import statefulset
from controller.shares.content import Unusable
from controller.shares.volumes.objects import host_claim, host_volume
from controller.shares.volumes.offers import TYPES, Grant, granted, offer_of
from tests.kit.tenantsamples import plane_spec


def grant(*, read_only: bool = True, volume: Obj | None = None) -> Grant:
    """A grant of tenant team-a."""
    source = {"persistentVolumeName": "pv"} if volume else {"nfs": {"server": "nfs.example.org", "path": "/export"}}
    shared = {"metadata": {"name": "data"}, "spec": {**source, "readOnly": read_only}}
    offer = offer_of(shared, {"metadata": {"name": "pv"}, "spec": volume} if volume else None, TYPES)
    assert not isinstance(offer, Unusable)
    return granted({"data": offer}, "team-a", ["data"]).grants[0]


CSI = grant(volume={"csi": {"driver": "nfs.csi.example.org", "volumeHandle": "a"}})
LOCAL = grant(volume={"local": {"path": "/"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": []}]}}})


def volume(given: Grant | None = None, *, name: str = "", marks: Obj | None = None, without: str = "", **spec: Any) -> Obj:
    """The volume of a grant, with other fields in its spec."""
    made = host_volume(given or grant())
    meta = made["metadata"] | ({"name": name} if name else {}) | ({"labels": marks} if marks is not None else {})
    body = {key: value for key, value in made["spec"].items() if key != without}
    return made | {"metadata": meta, "spec": body | spec}


def claim(*, name: str = "", place: str = "", **spec: Any) -> Obj:
    """The claim of a grant, with other fields in its spec."""
    made = host_claim(grant())
    meta = made["metadata"] | ({"name": name} if name else {}) | ({"namespace": place} if place else {})
    return made | {"metadata": meta, "spec": made["spec"] | spec}


def claim_of_plane(*, name: str = "data-plane-0", place: str = "bh-team-a", **spec: Any) -> Obj:
    """The claim of a plane that is restored where it never ran."""
    made = statefulset.claim(plane_spec(tenant="team-a"))
    return made | {"metadata": made["metadata"] | {"name": name, "namespace": place}, "spec": made["spec"] | spec}


_MADE = host_volume(grant())
_FOR = _MADE["spec"]["claimRef"]
_NFS = _MADE["spec"]["nfs"]

REFUSED: dict[str, Obj] = {
    "a volume of a node's files": volume(without="nfs", hostPath={"path": "/"}),
    "a volume of a type that is not shared": volume(LOCAL),
    "a volume for another tenant": volume(claimRef=_FOR | {"namespace": "bh-team-b-work"}),
    "a volume for the system": volume(claimRef=_FOR | {"namespace": "kube-system"}),
    "a volume without a claim": volume(without="claimRef"),
    "a volume for a claim of the tenant's own": volume(claimRef=_FOR | {"name": "data"}),
    "a volume of another's name": volume(name="pv"),
    "a volume without a mark": volume(marks={}),
    "a volume that is emptied when it goes": volume(persistentVolumeReclaimPolicy="Delete"),
    "a volume of a class": volume(storageClassName="fast"),
    "a read-only volume that can be written to": volume(nfs=_NFS | {"readOnly": False}),
    "a read-only CSI volume that can be written to": volume(CSI, csi=host_volume(CSI)["spec"]["csi"] | {"readOnly": False}),
    "a read-only volume that is mounted otherwise": volume(mountOptions=["rw"]),
    "a read-only volume for writers": volume(accessModes=["ReadWriteMany"]),
    "a claim of the tenant's own": claim(name="data"),
    "a claim in the plane's namespace": claim(place="bh-team-a"),
    "a claim of anything": claim(volumeName="pv"),
    "a claim of what comes first": claim(volumeName=None),
    "a claim of the host's default class": claim(storageClassName=None)
    | {"metadata": {"name": "data", "namespace": "bh-team-a-work"}},
    "a claim of a plane of no member": claim_of_plane(name="data-plane-x"),
    "a claim of a plane among the tenant's": claim_of_plane(place="bh-team-a-work"),
    "a claim of a plane that takes a volume": claim_of_plane(volumeName="pv"),
    "a claim of a plane with data from elsewhere": claim_of_plane(
        dataSource={"kind": "PersistentVolumeClaim", "name": "other"}
    ),
    "a claim with data from elsewhere": claim(dataSource={"kind": "PersistentVolumeClaim", "name": "etcd"}),
}

ALLOWED: dict[str, Obj] = {
    "a shared export": volume(),
    "a shared export that can be written to": volume(grant(read_only=False)),
    "a shared CSI volume": volume(CSI),
    "a claim of it": claim(),
    "a claim of a plane": claim_of_plane(),
}
