"""The facets that a Tenant consists of, in the order in which they are reconciled. Only this file lists them by name.

    namespaces and rights ─> keys ─> host objects ─> the plane answers ─> objects inside it ─> what runs beside it
                                                                          in any case: extras, volumes, shares, the way in

The order is fixed: a facet may rely on those above it. Their reports have the same order, and `Ready` shows the first condition
that is not true.
"""

from collections.abc import Iterable
from typing import Final

from controller.inside.auditlosses import AuditLosses
from controller.tenant.facets.adoption.facet import Adoption
from controller.tenant.facets.audit.facet import AuditReceiver, AuditTrail
from controller.tenant.facets.egress.facet import Egress
from controller.tenant.facets.exposure.facet import Exposed
from controller.tenant.facets.ground.facet import Ground
from controller.tenant.facets.identity.facet import Identity
from controller.tenant.facets.issuers.facet import SignIn
from controller.tenant.facets.keys.facet import Keys, Presented
from controller.tenant.facets.members.facet import MembersCared, MembersRecorded
from controller.tenant.facets.nodes.facet import Nodes
from controller.tenant.facets.objects.facet import Extras, Followers, Objects
from controller.tenant.facets.plane.facet import Inside, Plane
from controller.tenant.facets.pulls.facet import Pulls
from controller.tenant.facets.quota.facet import Quota
from controller.tenant.facets.restores.dropping import RestoreKeysDropped
from controller.tenant.facets.restores.facet import RestoreBegun, RestoreEnded
from controller.tenant.facets.retention.facet import Retention
from controller.tenant.facets.schedule.facet import SnapshotSchedule
from controller.tenant.facets.shares.facet import Shares
from controller.tenant.facets.slurm.facet import Slurm
from controller.tenant.facets.snapshots.facet import TenantSnapshots
from controller.tenant.facets.store.facet import StoreRoom
from controller.tenant.facets.stranding.facet import Stranding
from controller.tenant.facets.volumes.facet import Volumes
from controller.tenant.tools import Tools
from controller.tenant.turn import Facet

FACETS: Final[tuple[type[Facet], ...]] = (
    Nodes,
    SignIn,
    Adoption,  # before anything is applied in its namespaces
    Ground,
    RestoreBegun,  # before the identity, which a restored plane brings along, and before keys and pods
    Retention,
    Identity,  # after the ground, where its record is; before everything that follows from it
    Pulls,
    AuditReceiver,  # before the host objects, which contain its credential
    Keys,  # after the ground: keys must never be created twice, so their Secrets are read before
    MembersRecorded,  # before the pods that read the record
    Objects,  # after the keys; everything that protects the tenant is in place once this is through
    Presented,
    Stranding,  # before those that report it: the plane, and its members
    Plane,
    Followers,  # once the plane answers
    Inside,
    RestoreEnded,
    Quota,
    Egress,
    Slurm,
    AuditTrail,
    StoreRoom,
    SnapshotSchedule,
    TenantSnapshots,
    # These act even if an earlier facet has failed.
    MembersCared,
    Extras,
    Volumes,
    Shares,
    Exposed,
    RestoreKeysDropped,
)


def built_in(tools: Tools) -> tuple[Facet, ...]:
    """The facets that need only the tools."""
    return (
        Ground(tools.client, tools.applier, tools.clock),
        Retention(),
        Keys(tools.renewals, tools.known),
        MembersRecorded(tools.client),
        Objects(tools.applier),
        Presented(tools.client, tools.owned),
        Plane(tools.interior),
        Followers(tools.applier),
        Inside(tools.client, tools.interior),
        Quota(),
        Egress(),
        AuditTrail(AuditLosses(tools.planes, tools.clock, tools.budget)),
        Extras(tools.applier),
        Volumes(tools.client),
        Exposed(tools.client),
    )


def in_order(offered: Iterable[Facet]) -> tuple[Facet, ...]:
    """The offered facets in the order of `FACETS`. Raises ValueError for a facet that is not in it."""
    offered = tuple(offered)
    if strange := sorted({type(facet).__name__ for facet in offered} - {kind.__name__ for kind in FACETS}):
        raise ValueError(f"add {', '.join(strange)} to FACETS in controller/tenant/consists.py, at the place where it must act")
    return tuple(sorted(offered, key=lambda facet: FACETS.index(type(facet))))
