"""Reads the state of one tenant into one frozen value before anything is decided.

Host objects come from informers. The Tenant, its class and, once it may be built, its Secrets are read from the API server,
because a decision on stale copies of those would do harm. So a reconcile of an unchanged tenant costs three small requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from bulkhead.api import labels, names, planeidentity
from bulkhead.api.objects import Obj
from bulkhead.api.planeidentity import Recorded, recorded
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import NotFound
from bulkhead.kube.objects import Key, Resource, key_of
from bulkhead.ledger.model import Tenant as Member
from controller.allotment import resources_of
from controller.cohorts import cohort_of
from controller.decide.accepted import CONFIG_MAP
from controller.decide.adopt import Claim, claim_of
from controller.decide.retain import Retained, retained_by, where
from controller.existing import Existing, by_slot
from controller.host.hostranges import HostRanges
from controller.host.owned import Owned
from controller.plane.addresses import Reserved
from controller.plane.spec import PLANE
from controller.sections import section_of


@dataclass(frozen=True)  # without slots: the objects are sorted once
class Observed:
    """The state of one tenant at one moment."""

    tenant: Obj
    tenant_class: Obj | None
    now: datetime
    host_api: tuple[tuple[str, int], ...] = ()
    reserved: tuple[Reserved, ...] = ()
    default_storage_classes: tuple[str, ...] = ()
    objects: Mapping[tuple[Resource, Key], Obj] = field(default_factory=dict)
    foreign_namespaces: tuple[str, ...] = ()
    retained: Retained | None = None  # the plane that is kept in a foreign namespace of the tenant's name
    cohort: Obj | None = None
    given: tuple[Member, ...] = ()

    @property
    def name(self) -> str:
        """The tenant's name."""
        return str(self.tenant["metadata"]["name"])

    @property
    def built(self) -> bool:
        """Whether the tenant was built before and its namespaces are still its own."""
        meta = self.tenant["metadata"]
        both = (names.plane_namespace(self.name), names.work_namespace(self.name))
        namespaces = [self.get(kinds.NAMESPACES, namespace) for namespace in both]
        applied = (self.tenant.get("status") or {}).get("class") or self.get(kinds.STATEFUL_SETS, PLANE, both[0])
        return bool(applied) and all(namespace and owned_by(namespace, self.name, str(meta["uid"])) for namespace in namespaces)

    def get(self, resource: Resource, name: str, namespace: str = "") -> Obj | None:
        """One of the tenant's own host objects."""
        return self.objects.get((resource, Key(namespace, name)))

    @property
    def claim(self) -> Claim:
        """What the Tenant has to do with a retained plane."""
        return claim_of(self.tenant, self.existing, self.retained)

    @cached_property
    def existing(self) -> Existing:
        """The tenant's own host objects by slot."""
        return by_slot(self.objects.values())

    @property
    def pod_addresses(self) -> tuple[str, ...]:
        """The addresses of the plane's pods."""
        pods = (obj for (kind, _), obj in self.objects.items() if kind is kinds.PODS)
        listed = ((pod.get("status") or {}).get("podIPs") or [] for pod in pods)
        return tuple(sorted({str(address.get("ip")) for addresses in listed for address in addresses if address.get("ip")}))

    def in_plane(self, resource: Resource) -> dict[str, Obj]:
        """The objects of one kind in the plane's namespace, by name."""
        namespace = f"bh-{self.name}"
        return {key.name: obj for (kind, key), obj in self.objects.items() if kind is resource and key.namespace == namespace}


async def read_tenant(client: Client, name: str) -> Obj | None:
    """The Tenant; None if it is gone."""
    try:
        return await client.get(kinds.TENANTS, name)
    except NotFound:
        return None


async def observe(client: Client, owned: Owned, ranges: HostRanges, tenant: Obj, now: datetime) -> Observed:
    """Read everything else about a tenant."""
    name = str(tenant["metadata"]["name"])
    class_name = str((tenant.get("spec") or {}).get("class") or "")
    objects = {(resource, key_of(obj)): obj for resource, obj in owned.of_tenant(name)}
    foreign = await _foreign(client, tenant, objects)
    retained = retained_by(next((obj for obj in foreign if obj["metadata"]["name"] == where(name)), None), name)
    return Observed(
        tenant=tenant,
        tenant_class=await _tenant_class(client, class_name),
        now=now,
        host_api=ranges.api(),
        reserved=ranges.reserved(),
        default_storage_classes=ranges.default_storage_classes(),
        objects=objects,
        foreign_namespaces=tuple(str(obj["metadata"]["name"]) for obj in foreign if not _of(retained, obj)),
        retained=retained,
        cohort=await _cohort(client, section_of(tenant, "spec")),
        given=owned.given(),
    )


async def _cohort(client: Client, spec: Obj) -> Obj | None:
    """The Cohort of a Tenant; it is read only if the Tenant's quota has flavors, which is rare."""
    name = cohort_of(spec)
    if not name or not any(section_of(resources_of(spec), resource).get("flavors") for resource in resources_of(spec)):
        return None
    try:
        return await client.get(kinds.COHORTS, name)
    except NotFound:
        return None


async def _tenant_class(client: Client, name: str) -> Obj | None:
    if not name:
        return None
    try:
        return await client.get(kinds.TENANT_CLASSES, name)
    except NotFound:
        return None


async def _foreign(client: Client, tenant: Obj, objects: Mapping[tuple[Resource, Key], Obj]) -> list[Obj]:
    """Namespaces with the tenant's names that are not its own; read only while the tenant's own are not observed."""
    name, uid = str(tenant["metadata"]["name"]), str(tenant["metadata"]["uid"])
    foreign = []
    for namespace in (names.plane_namespace(name), names.work_namespace(name)):
        found = objects.get((kinds.NAMESPACES, Key("", namespace)))
        if found is None:
            try:
                found = await client.get(kinds.NAMESPACES, namespace)
            except NotFound:
                continue
        if not owned_by(found, name, uid):
            foreign.append(found)
    return foreign


def _of(retained: Retained | None, namespace: Obj) -> bool:
    """Whether a namespace belongs to a retained plane."""
    found = retained_by(namespace, retained.tenant) if retained is not None else None
    return found is not None and retained is not None and found.identity == retained.identity


def owned_by(obj: Obj, tenant: str, uid: str) -> bool:
    """Whether a namespace has the label of exactly this tenant."""
    meta = obj["metadata"]
    own = meta.get("labels") or {}
    marked = own.get(labels.MANAGED_BY) == labels.MANAGED_BY_BULKHEAD and own.get(labels.TENANT) == tenant
    return marked and (meta.get("annotations") or {}).get(labels.TENANT_UID) == uid


async def recorded_spec(client: Client, tenant: str) -> Obj | None:
    """The controller's record of the last accepted spec (`controller.decide.accepted`)."""
    try:
        return await client.get(kinds.CONFIG_MAPS, CONFIG_MAP, names.plane_namespace(tenant))
    except NotFound:
        return None


async def recorded_identity(client: Client, namespace: str) -> Recorded:
    """The host's record of the plane's data. The syncer writes it, and the controller does not watch such objects."""
    try:
        return recorded(await client.get(kinds.CONFIG_MAPS, planeidentity.NAME, namespace))
    except NotFound:
        return Recorded()
