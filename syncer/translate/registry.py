"""The kinds that are mirrored from the plane to the host. Adding one is one file, one entry here, one folder of cases.

Nodes and events go the other way and are not listed: see `node.py` and `event.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from syncer.translate import mirrored, references
from syncer.translate.kinds import (
    configmap,
    deviceclaim,
    disruptionbudget,
    endpointslice,
    ingress,
    networkpolicy,
    pod,
    podgroup,
    secret,
    service,
    snapshot,
    volumeclaim,
)
from syncer.translate.kinds import podstatus as status
from syncer.translate.mirrored import everybody, nothing_to_say, stays
from syncer.translate.reasons import Reason
from syncer.translate.references import Reference
from syncer.translate.view import Obj, TenantView


@dataclass(frozen=True, slots=True)
class Translation:
    """One kind: its resource and its pure functions."""

    kind: str
    group: str
    version: str
    plural: str
    to_host: Callable[[Obj, TenantView], Obj]
    references: Callable[[Obj], frozenset[Reference]] = references.none
    status_to_virtual: Callable[[Obj, Obj, TenantView], Obj] | None = None
    mirrored: Callable[[Obj], bool] = mirrored.always  # what is not mirrored is no error
    remarks: Callable[[Obj, TenantView], list[str]] = nothing_to_say  # what of a mirrored object stays behind
    # Whether a host copy may outlast the refusal of what its object has become: its last accepted form.
    may_stay: Callable[[Obj, TenantView], bool] = stays
    # The host copy carries the hash of what was wanted, because the host fills in too much for a comparison field by field.
    stamped: bool = False
    offered: Callable[[TenantView], bool] = everybody  # kinds that a tenant is not offered are not watched
    optional: bool = False  # an API server, of the plane or of the host, may not serve it though it is offered
    # Whether the host has made it before, for what is made once and holds what was at that time.
    was_taken: Callable[[Obj], bool] | None = None
    blocked: Callable[[Obj, Reason, str, str], Obj] | None = None  # the status that tells of a refusal
    on_reference: bool = False  # mirrored only while something mirrored refers to it

    @property
    def api_version(self) -> str:
        """`v1`, `discovery.k8s.io/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version


_ALL: Final = (
    Translation("Pod", "", "v1", "pods", pod.to_host, references.of_pod, status.status_to_virtual),
    Translation("ConfigMap", "", "v1", "configmaps", configmap.to_host, on_reference=True),
    Translation("Secret", "", "v1", "secrets", secret.to_host, on_reference=True),
    Translation("Service", "", "v1", "services", service.to_host, mirrored=mirrored.service),
    # Who holds which address is a further input: `endpointslice.to_host(virtual, view, holders)`.
    Translation(
        endpointslice.KIND,
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        endpointslice.to_host,
        mirrored=mirrored.endpoint_slice,
        may_stay=endpointslice.may_stay,
    ),
    Translation(
        "PersistentVolumeClaim",
        "",
        "v1",
        "persistentvolumeclaims",
        volumeclaim.to_host,
        status_to_virtual=volumeclaim.status_to_virtual,
    ),
    # Not every host serves this kind.
    Translation(
        "ResourceClaim",
        "resource.k8s.io",
        "v1",
        "resourceclaims",
        deviceclaim.to_host,
        status_to_virtual=deviceclaim.status_to_virtual,
        offered=lambda view: bool(view.device_classes),
        stamped=True,
    ),
    Translation(
        "NetworkPolicy",
        "networking.k8s.io",
        "v1",
        "networkpolicies",
        networkpolicy.to_host,
        remarks=networkpolicy.remarks,
        stamped=True,
    ),
    Translation(
        "PodDisruptionBudget",
        "policy",
        "v1",
        "poddisruptionbudgets",
        disruptionbudget.to_host,
        mirrored=disruptionbudget.is_mirrored,
        stamped=True,
    ),
    Translation(
        "Ingress",
        "networking.k8s.io",
        "v1",
        "ingresses",
        ingress.to_host,
        references.of_ingress,
        ingress.status_to_virtual,
        remarks=ingress.remarks,
        may_stay=ingress.may_stay,
        stamped=True,
    ),
    Translation(
        references.POD_GROUP,
        "scheduling.k8s.io",
        "v1alpha2",
        "podgroups",
        podgroup.to_host,
        status_to_virtual=podgroup.status_to_virtual,
        offered=lambda view: view.pod_groups,
        optional=True,
    ),
    # What was taken stays when the class offers none any more: it is data.
    Translation(
        "VolumeSnapshot",
        snapshot.GROUP,
        "v1",
        "volumesnapshots",
        snapshot.to_host,
        status_to_virtual=snapshot.status_to_virtual,
        offered=lambda view: view.offers_snapshots,
        optional=True,
        was_taken=snapshot.was_taken,
        blocked=snapshot.blocked,
    ),
)

KINDS: Final[Mapping[str, Translation]] = MappingProxyType({entry.kind: entry for entry in _ALL})
