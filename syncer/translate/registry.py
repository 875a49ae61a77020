"""The kinds that are mirrored from the plane to the host. For a new one its file in `kinds` and an entry here are enough.

    entry ──> informers of both sides, references, patrol, reconciler, diff; what needs I/O of its own: `syncer.mirrors.kinds`

What the controller and the chart have to grant for it: `tests/syncer/test_every_kind.py`. Nodes and events go the other way and
are not listed: see `kinds/node.py` and `kinds/event.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bulkhead.api.objects import Obj
from syncer.translate import alternatives, mirrored, podgroupapi, references
from syncer.translate.kinds import (
    configmap,
    deviceclaim,
    disruptionbudget,
    endpointslice,
    gang,
    ingress,
    networkpolicy,
    pod,
    podgroup,
    podstatus,
    secret,
    service,
    snapshot,
    volumeclaim,
)
from syncer.translate.mirrored import everybody, nothing_to_say, same_view, stays
from syncer.translate.reasons import Reason
from syncer.translate.references import Reference
from syncer.translate.view import TenantView


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
    mirrored: Callable[[Obj], bool] = mirrored.always  # an object that is not mirrored is not an error
    remarks: Callable[[Obj, TenantView], list[str]] = nothing_to_say  # the parts of a mirrored object that stay behind
    # The fields of a copy that follow its virtual object; none: no API server lets them change.
    content: tuple[str, ...] = ("spec",)
    # Paths of fields that cannot be patched: a copy in which one of them differs is recreated.
    fixed: tuple[tuple[str, ...], ...] = ()
    # The view for an object that the host has already: an accepted object is not refused because of later changes.
    view_of_copy: Callable[[TenantView, Obj], TenantView] = same_view
    # Whether a host copy may outlast the refusal of what its object has become: its last accepted form.
    may_stay: Callable[[Obj, TenantView], bool] = stays
    # The host copy carries the hash of what was wanted, because the host fills in too much for a comparison field by field.
    stamped: bool = False
    offered: Callable[[TenantView], bool] = everybody  # kinds that a tenant is not offered are not watched
    optional: bool = False  # an API server, of the plane or of the host, may not serve it though it is offered
    # Whether something is lost where the host does not serve it, of which the tenant has to know.
    needs_host: Callable[[TenantView], bool] = everybody
    # Whether the host has made it before, for what is made once and holds what was at that time.
    was_taken: Callable[[Obj], bool] | None = None
    blocked: Callable[[Obj, Reason, str, str], Obj] | None = None  # the status that says why it was refused
    on_reference: bool = False  # mirrored only while something mirrored refers to it
    counted: bool = False  # the devices that it asks for are counted against the tenant's limits before it is created
    events: bool = False  # the tenant gets the host's events about its copies


_ALL: Final = (
    Translation(
        "Pod",
        "",
        "v1",
        "pods",
        pod.to_host,
        references=references.of_pod,
        status_to_virtual=podstatus.status_to_virtual,
        counted=True,
        events=True,
    ),
    Translation("ConfigMap", "", "v1", "configmaps", configmap.to_host, content=("data", "binaryData"), on_reference=True),
    Translation("Secret", "", "v1", "secrets", secret.to_host, content=("data",), fixed=(("type",),), on_reference=True),
    Translation(
        "Service",
        "",
        "v1",
        "services",
        service.to_host,
        mirrored=mirrored.service,
        remarks=alternatives.of_service,
        view_of_copy=service.as_made,
        fixed=(("spec", "clusterIP"),),
        events=True,
    ),
    # Who holds which address is a further input: `endpointslice.to_host(virtual, view, holders)`.
    Translation(
        endpointslice.KIND,
        "discovery.k8s.io",
        "v1",
        "endpointslices",
        endpointslice.to_host,
        mirrored=mirrored.endpoint_slice,
        may_stay=endpointslice.may_stay,
        content=("endpoints", "ports"),
        fixed=(("addressType",),),
    ),
    Translation(
        references.CLAIM,
        "",
        "v1",
        "persistentvolumeclaims",
        volumeclaim.to_host,
        status_to_virtual=volumeclaim.status_to_virtual,
        view_of_copy=volumeclaim.as_made,
        events=True,
    ),
    # Not every host serves this kind.
    Translation(
        deviceclaim.KIND,
        "resource.k8s.io",
        "v1",
        "resourceclaims",
        deviceclaim.to_host,
        status_to_virtual=deviceclaim.status_to_virtual,
        offered=lambda view: bool(view.device_classes),
        content=(),
        view_of_copy=lambda view, _host: view.standing(),
        stamped=True,
        counted=True,
    ),
    Translation(
        networkpolicy.KIND,
        "networking.k8s.io",
        "v1",
        "networkpolicies",
        networkpolicy.to_host,
        remarks=networkpolicy.remarks,
        stamped=True,
    ),
    # How many host pods a selector selects is a further input: `disruptionbudget.to_host(virtual, view, selected)`.
    Translation(
        disruptionbudget.KIND,
        "policy",
        "v1",
        "poddisruptionbudgets",
        disruptionbudget.to_host,
        mirrored=disruptionbudget.is_mirrored,
        stamped=True,
    ),
    Translation(
        ingress.KIND,
        "networking.k8s.io",
        "v1",
        "ingresses",
        ingress.to_host,
        references=references.of_ingress,
        status_to_virtual=ingress.status_to_virtual,
        remarks=ingress.remarks,
        may_stay=ingress.may_stay,
        stamped=True,
    ),
    Translation(
        references.POD_GROUP,
        podgroupapi.GROUP,
        podgroupapi.VERSION,
        podgroupapi.PLURAL,
        podgroup.to_host,
        status_to_virtual=podgroup.status_to_virtual,
        remarks=podgroup.remarks,
        offered=lambda view: view.pod_groups,
        content=(),
        view_of_copy=lambda view, _host: view.standing(),
        optional=True,
        needs_host=lambda view: not gang.offered(view),
    ),
    # Snapshots stay when the class no longer offers them: they are data.
    Translation(
        snapshot.KIND,
        snapshot.GROUP,
        "v1",
        "volumesnapshots",
        snapshot.to_host,
        status_to_virtual=snapshot.status_to_virtual,
        offered=lambda view: view.offers_snapshots,
        content=(),
        optional=True,
        was_taken=snapshot.was_taken,
        blocked=snapshot.blocked,
        events=True,
    ),
)

_BY_KIND: Final = {entry.kind: entry for entry in _ALL}
KINDS: Final[Mapping[str, Translation]] = MappingProxyType(_BY_KIND)

# The kinds of whose copies the tenant gets the host's events.
WITH_EVENTS: Final = frozenset(kind for kind, translation in KINDS.items() if translation.events)
