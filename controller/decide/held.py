"""What to build for a running tenant whose spec is refused now. Pure.

Its class was tightened, or an upgrade brought a new bound; a refused edit is never applied in the first place (`accepted`). If
the controller stopped reconciling what runs, its certificates would expire, and it would keep every right that its class has
since withdrawn. So it is held:

    Case ── without what exceeds the class (`bounds.within`) ──> like any other ── refused parts as they run ──> Admitted

This never loosens isolation: if the class has no value for a refused field, the running one stays. Refused amounts also stay as
they run, and so do the plane and its version: people have to decide how to shrink them.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from operator import itemgetter
from typing import Any, Final, TypeAlias

from bulkhead.api import labels, names, privileges
from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import Amount, InvalidQuantityError, mebibytes, of_base_units, readable
from bulkhead.api.untrusted import mapping
from bulkhead.ledger.given import tenant_of
from bulkhead.ledger.model import Line, Share
from controller import allotment
from controller.decide import versions
from controller.decide.bounds import within
from controller.decide.case import Admitted, Case
from controller.decide.dedicated import Finding
from controller.decide.planespec import can_serve_pod_groups, plane_of, with_cohort
from controller.existing import Existing, Slot
from controller.inside.objects import unprivileged
from controller.plane import quota
from controller.plane.apiserver import POD_GROUP_API
from controller.plane.budgets import BUDGETS, Budget, Budgets
from controller.plane.sections import Isolation, Nodes
from controller.plane.spec import DNS, PLANE, SYNCER, PlaneSpec
from controller.refusal import Refusal
from controller.sections import put, section_of, text_or_none

NOTE: Final = (
    "until Tenant and class agree again, the class's values replace refused fields, and the plane, its version and refused "
    "amounts stay as they are"
)
_REASONS: Final = frozenset(
    {
        Reason.VERSION_UNAVAILABLE,
        Reason.VERSION_SKEW,
        Reason.OUT_OF_BOUNDS,
        Reason.IRREVERSIBLE,
        Reason.IMPOSSIBLE_QUOTA,
        Reason.NOT_SUPPORTED,
        Reason.INVALID_CONFIGURATION,
        Reason.NODES_TAKEN,
    }
)
_RESOURCES: Final = ("quota", "resources")
_RESOURCE_PATH_PARTS: Final = 3  # the length of a path to the whole section of one resource
_DEDICATED: Final = ("nodes", "dedicated")
_PODS: Final = frozenset({"count/pods", "pods"})
_QUOTAS: Final = (names.OBJECT_QUOTA, names.SECRET_QUOTA, names.POD_QUOTA)

Path: TypeAlias = tuple[str, ...]


def holds(refusal: Refusal, tenant_class: Obj | None) -> bool:
    """Whether Tenant and class disagree, and nothing else is wrong: a running tenant is then held and still reconciled."""
    return tenant_class is not None and refusal.reason in _REASONS


def hold(case: Case, refusal: Refusal) -> Admitted:
    """What to build for a running tenant that is refused."""
    sound = replace(case, tenant_class={**(case.tenant_class or {}), "spec": allotment.without_faults(case.bounds)})
    amounts = _refused_amounts(case.spec, sound.bounds)
    refused = {excess.path for excess in case.excess} | amounts
    inside = replace(sound, tenant={**case.tenant, "spec": _inside(case, amounts)})
    claims = _claims_nodes(inside, refused)
    nodes = case.nodes if claims else None
    spec = plane_of(inside)
    runs = _Runs(spec, case.existing)
    version = versions.built(case.tenant, case.existing) or spec.version
    images = replace(spec.images, kubernetes=case.settings.image(case.settings.image_kubernetes, version))
    spec = replace(spec, version=version, images=images, nodes=_nodes(spec, runs, refused, nodes))
    spec = replace(spec, budgets=_budgets(spec, runs, refused), isolation=_isolation(spec, runs, refused))
    # Withdrawn at once; offered only together with a plane that serves them.
    pod_groups = spec.offers.pod_groups and runs.serves_pod_groups(version)
    spec = replace(spec, offers=replace(spec.offers, pod_groups=pod_groups))
    return Admitted(
        _amounts(spec, inside, refused, runs),
        case.slurm,
        claims_nodes=claims,
        nodes=nodes,
        held=refusal,
        shares=inside.shares,
        class_name=case.class_name,
        slurm_logins=case.slurm_logins,
    )


def _inside(case: Case, amounts: Iterable[Path]) -> dict[str, Any]:
    """What the Tenant requests, without what its class refuses."""
    spec = within(case.spec, case.excess)
    for path in amounts:
        spec = put(spec, path, None)
    return spec


def _claims_nodes(inside: Case, refused: Iterable[Path]) -> bool:
    """Whether a held tenant gains and releases dedicated nodes like a tenant that is not refused.

    If its pool differed from the requested one, it would release the nodes on which it runs.
    """
    return inside.wants_nodes and bool(inside.pool) and not any(path[:2] == ("nodes", "selector") for path in refused)


@dataclass(frozen=True, slots=True)
class _Runs:
    """What runs of a tenant, as far as this module needs it."""

    spec: PlaneSpec
    existing: Existing

    @property
    def settings(self) -> dict[str, Any]:
        """The syncer's settings; empty if they are missing or not JSON."""
        text = section_of(self._get("ConfigMap", SYNCER), "data").get("settings.json")
        try:
            found = json.loads(text or "{}")
        except ValueError:
            return {}
        return dict(mapping(found))

    @property
    def runtime_class(self) -> str | None:
        """The RuntimeClass that pods get now."""
        return text_or_none(self.settings, "runtimeClassName")

    @property
    def dedicated(self) -> bool:
        """Whether pods select dedicated nodes now."""
        return section_of(self.settings, "enforcedNodeSelector").get(labels.TENANT) == self.spec.tenant

    @property
    def hard(self) -> dict[str, Amount]:
        """What the host counts, and the limits; a limit that cannot be read was not written by Bulkhead and is left out."""
        quotas = (self.existing.get(Slot("ResourceQuota", self.spec.work_namespace, name), {}) for name in _QUOTAS)
        counted = (section_of(section_of(found, "spec"), "hard") for found in quotas)
        return {key: Amount.read(value) for hard in counted for key, value in hard.items() if readable(value) is not None}

    @property
    def shares(self) -> Mapping[Line, Share]:
        """The shares in the record on the tenant's quota; empty if it has none."""
        found = self.existing.get(Slot("ResourceQuota", self.spec.work_namespace, names.POD_QUOTA), {})
        noted = tenant_of(found)
        return noted.shares if noted is not None and noted.cohort else {}

    @property
    def nominal(self) -> dict[str, Decimal]:
        """The nominal quota of each resource that the tenant may borrow."""
        sums: dict[str, int] = {}
        for (_, resource), share in self.shares.items():
            sums[resource] = sums.get(resource, 0) + share.nominal
        return {resource: of_base_units(resource, number) for resource, number in sums.items()}

    def serves_pod_groups(self, version: str) -> bool:
        """Whether the plane serves PodGroups, by its flags; for a plane that does not exist yet, by its version."""
        plane = self._get("StatefulSet", PLANE)
        return POD_GROUP_API in json.dumps(plane) if plane else can_serve_pod_groups(version)

    def budget(self, name: str, otherwise: Budget) -> Budget:
        """What a Deployment's container requests and may use."""
        template = section_of(section_of(self._get("Deployment", name), "spec"), "template")
        containers = section_of(template, "spec").get("containers") or [{}]
        resources = section_of(containers[0], "resources")
        requests, limits = section_of(resources, "requests"), section_of(resources, "limits")
        try:
            most = mebibytes(limits.get("memory"))
        except InvalidQuantityError:
            return otherwise
        return Budget(
            cpu=str(requests.get("cpu", otherwise.cpu)),
            memory=str(requests.get("memory", otherwise.memory)),
            memory_limit_mib=most,
            cpu_limit=text_or_none(limits, "cpu"),
            cores=BUDGETS[name].cores,
        )

    def _get(self, kind: str, name: str) -> Obj:
        return self.existing.get(Slot(kind, self.spec.namespace, name), {})


def _refused_amounts(spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> set[Path]:
    asked = section_of(section_of(spec, "quota"), "resources")
    alone = {name: {"quota": {"resources": {name: asked[name]}}} for name in asked}
    return {(*_RESOURCES, name) for name in asked if allotment.refuse_asked(alone[name], bounds)}


def _component(refused: set[Path], name: str) -> bool:
    return any(path[:3] == ("controlPlane", "resources", name) for path in refused)


def _budgets(spec: PlaneSpec, runs: _Runs, refused: set[Path]) -> Budgets:
    """The budgets, with refused ones of Deployments as they run; those of the StatefulSet are not applied at all."""
    budgets = spec.budgets
    return replace(
        budgets,
        syncer=runs.budget(SYNCER, budgets.syncer) if _component(refused, "syncer") else budgets.syncer,
        dns=runs.budget(DNS, budgets.dns) if _component(refused, "dns") else budgets.dns,
    )


def _isolation(spec: PlaneSpec, runs: _Runs, refused: set[Path]) -> Isolation:
    """Isolation without what the plane's version cannot do; the pods' RuntimeClass stays if only a refused one is requested."""
    isolation = spec.isolation
    if not unprivileged.served_by(spec.version):
        isolation = replace(isolation, drop_privileges=privileges.NEVER)
    if ("isolation", "runtimeClassName") in refused and isolation.runtime_class is None:
        isolation = replace(isolation, runtime_class=runs.runtime_class)
    return isolation


def _nodes(spec: PlaneSpec, runs: _Runs, refused: set[Path], found: Finding | None) -> Nodes:
    """Nodes; they stay dedicated or shared as they are if the request is not allowed or cannot be met."""
    nodes = spec.nodes
    permitted = _DEDICATED not in refused or nodes.dedicated
    taken = found is None or found.refusing is not None
    if not permitted or (nodes.dedicated and (taken or not nodes.selector)):
        return replace(nodes, dedicated=runs.dedicated)
    return nodes


def _amounts(spec: PlaneSpec, inside: Case, refused: set[Path], runs: _Runs) -> PlaneSpec:
    """The refused amounts, as the host counts them now."""
    hard = runs.hard
    asked = {path[-1] for path in refused if path[:2] == _RESOURCES and len(path) == _RESOURCE_PATH_PARTS}
    # Also for a resource that the class no longer has.
    running = {name: hard[quota.counted_name(name)] for name in asked if quota.counted_name(name) in hard}
    # The ceiling also contains what the tenant could borrow, so the nominal quota comes from its record.
    running |= {name: Amount(number, running[name].notation) for name, number in runs.nominal.items() if name in running}
    limits = tuple(sorted((dict(spec.quota.limits) | running).items(), key=itemgetter(0)))
    spec = replace(spec, quota=replace(spec.quota, limits=limits))
    spec = with_cohort(spec, inside, {line: share for line, share in runs.shares.items() if line[1] in running})
    # What the host counts of the platform's own objects depends on the number of pods, so pods come first.
    objects = dict(spec.quota.object_limits)
    for name in sorted(objects, key=lambda name: name not in _PODS):
        if ("quota", "objects", name) in refused and name in hard:
            ours = quota.limits(_counting(spec, objects))[name]
            # Without the platform's own objects, which the host counts together with the tenant's.
            number = int(hard[name].number - (ours.number - objects[name].number))
            objects[name] = Amount.of(max(0, number))
    return _counting(spec, objects)


def _counting(spec: PlaneSpec, objects: Mapping[str, Amount]) -> PlaneSpec:
    """The plane with these limits of objects."""
    return replace(spec, quota=replace(spec.quota, object_limits=tuple(objects.items())))
