"""A tenant that runs and is refused now for what it asks: the Tenant that is carried out meanwhile. Pure.

Its class was tightened, an upgrade brought a bound that was not there, or somebody edited the Tenant. To stop looking after
what runs would let its certificates expire, and would leave it every right that its class has taken back since. So it is held:

    Tenant ── without what lies beyond the class (`bounds.within`) ──> as any other ── what is refused, as it runs ──> PlaneSpec

Of isolation nothing becomes looser by that: where the class has no word to take the place of what is left out, what runs stays.
Amounts that are refused stay as they run too, and so do the plane and its version: how to shrink them is for people to say.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bulkhead.api import labels, names
from bulkhead.api.conditions import Reason
from bulkhead.api.quantity import InvalidQuantityError, mebibytes, parse
from bulkhead.api.untrusted import mapping
from controller import allotment
from controller.decide import admit
from controller.decide.bounds import Question, beyond, within
from controller.plane import quota
from controller.plane.apiserver import POD_GROUP_API
from controller.plane.spec import BUDGETS, DNS, PLANE, SYNCER, Budget, Obj, PlaneSpec
from controller.refusal import Refusal
from controller.sections import put, section_of, text_or_none
from controller.settings import Settings

NOTE: Final = (
    "until Tenant and class agree again, the class's word holds for what is refused, and the plane, its version and amounts "
    "that are refused stay as they run"
)
_REASONS: Final = frozenset(
    {
        Reason.VERSION_UNAVAILABLE,
        Reason.OUT_OF_BOUNDS,
        Reason.IMPOSSIBLE_QUOTA,
        Reason.NOT_SUPPORTED,
        Reason.INVALID_CONFIGURATION,
        Reason.NODES_TAKEN,
    }
)
_RESOURCES: Final = ("quota", "resources")
_DEDICATED: Final = ("nodes", "dedicated")
_PODS: Final = frozenset({"count/pods", "pods"})
_QUOTAS: Final = (names.OBJECT_QUOTA, names.SECRET_QUOTA, names.POD_QUOTA)

# By kind, namespace and name.
Existing = Mapping[tuple[str, str, str], Obj]


def holds(refusal: Refusal, tenant_class: Obj | None) -> bool:
    """Whether a refusal is of what Tenant and class say: one that runs already is held then, and not let go of."""
    return tenant_class is not None and refusal.reason in _REASONS


def _sound(tenant_class: Obj) -> Obj:
    """The class without what is wrong with itself."""
    return {**tenant_class, "spec": allotment.without_faults(section_of(tenant_class, "spec"))}


def inside(tenant: Obj, tenant_class: Obj, settings: Settings) -> Obj:
    """The Tenant without what its class refuses."""
    bounds = section_of(_sound(tenant_class), "spec")
    spec = within(Question(section_of(tenant, "spec"), bounds, settings.storage_class))
    for name in _refused_amounts(spec, bounds):
        spec = put(spec, (*_RESOURCES, name), None)
    return {**tenant, "spec": spec}


def claims_nodes(tenant: Obj, tenant_class: Obj, settings: Settings) -> bool:
    """Whether a held tenant takes and gives back nodes of its own, as one that is not refused does.

    With another pool than it asks for it would give back those that it runs on.
    """
    found = beyond(Question(section_of(tenant, "spec"), section_of(tenant_class, "spec"), settings.storage_class))
    effective = inside(tenant, tenant_class, settings)
    dedicated = admit.wants_dedicated(effective, tenant_class) and bool(admit.pool(effective, tenant_class))
    return dedicated and not any(each.path[:2] == ("nodes", "selector") for each in found)


def hold(
    tenant: Obj, tenant_class: Obj, settings: Settings, existing: Existing, *, nodes_refused: bool = False, **host: Any
) -> PlaneSpec:
    """The plane to keep in repair; `host` is what `admit.plane_of` takes of the host."""
    tenant_class = _sound(tenant_class)
    asked, bounds = section_of(tenant, "spec"), section_of(tenant_class, "spec")
    refused = {each.path for each in beyond(Question(asked, bounds, settings.storage_class))}
    refused |= {(*_RESOURCES, name) for name in _refused_amounts(asked, bounds)}
    spec = admit.plane_of(inside(tenant, tenant_class, settings), tenant_class, settings, **host)
    runs = _Runs(spec, existing)
    version = str(section_of(section_of(tenant, "status"), "versions").get("kubernetes") or spec.version)
    images = replace(spec.images, kubernetes=settings.image_kubernetes.replace("{version}", version))
    spec = replace(spec, version=version, images=images)
    spec = replace(
        spec,
        # Taken away it is at once; given it is with the plane that serves it.
        pod_groups=spec.pod_groups and runs.serves_pod_groups,
        dedicated=_dedicated(spec, runs, permitted=_DEDICATED not in refused or spec.dedicated, taken=nodes_refused),
        syncer=runs.budget(SYNCER, spec.syncer) if _component(refused, "syncer") else spec.syncer,
        dns=runs.budget(DNS, spec.dns) if _component(refused, "dns") else spec.dns,
    )
    if ("isolation", "runtimeClassName") in refused and spec.runtime_class is None:
        spec = replace(spec, runtime_class=runs.runtime_class)
    return _amounts(spec, refused, runs)


@dataclass(frozen=True, slots=True)
class _Runs:
    """What runs of a tenant, as far as it is asked about."""

    spec: PlaneSpec
    existing: Existing

    @property
    def settings(self) -> dict[str, Any]:
        """The syncer's settings; empty where they are not there or no JSON."""
        text = section_of(self._get("ConfigMap", SYNCER), "data").get("settings.json")
        try:
            found = json.loads(text or "{}")
        except ValueError:
            return {}
        return dict(mapping(found))

    @property
    def runtime_class(self) -> str | None:
        """The RuntimeClass that pods are made with."""
        return text_or_none(self.settings, "runtimeClassName")

    @property
    def dedicated(self) -> bool:
        """Whether pods ask for nodes of their own."""
        return section_of(self.settings, "enforcedNodeSelector").get(labels.TENANT) == self.spec.tenant

    @property
    def serves_pod_groups(self) -> bool:
        """Whether the plane does, with the flags that it has."""
        plane = self._get("StatefulSet", PLANE)
        return POD_GROUP_API in json.dumps(plane) if plane else admit.can_serve_pod_groups(self.spec.version)

    @property
    def hard(self) -> dict[str, str]:
        """What the host counts, and up to where."""
        found: dict[str, str] = {}
        for name in _QUOTAS:
            there = self.existing.get(("ResourceQuota", self.spec.work_namespace, name), {})
            found |= section_of(section_of(there, "spec"), "hard")
        return found

    def budget(self, name: str, otherwise: Budget) -> Budget:
        """What a Deployment's container asks for and may use."""
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
        return self.existing.get((kind, self.spec.namespace, name), {})


def _refused_amounts(spec: Mapping[str, Any], bounds: Mapping[str, Any]) -> list[str]:
    asked = section_of(section_of(spec, "quota"), "resources")
    return [name for name in asked if allotment.refuse_asked({"quota": {"resources": {name: asked[name]}}}, bounds)]


def _component(refused: set[tuple[str, ...]], name: str) -> bool:
    return any(path[:3] == ("controlPlane", "resources", name) for path in refused)


def _dedicated(spec: PlaneSpec, runs: _Runs, *, permitted: bool, taken: bool) -> bool:
    """Whether the tenant's nodes are its alone: as it is now, where it may not ask for that or cannot have what it asks for."""
    if not permitted or (spec.dedicated and (taken or not spec.node_selector)):
        return runs.dedicated
    return spec.dedicated


def _amounts(spec: PlaneSpec, refused: set[tuple[str, ...]], runs: _Runs) -> PlaneSpec:
    """Amounts that are refused, as the host counts them."""
    hard = runs.hard
    asked = {path[-1] for path in refused if path[:2] == _RESOURCES}
    # Of a resource that the class does not know any more, too.
    running = {name: str(hard[quota.counted_name(name)]) for name in asked if quota.counted_name(name) in hard}
    spec = replace(spec, limits=tuple(sorted((dict(spec.limits) | running).items())))
    # What the host counts of the platform's own follows from how many pods there may be, so those come first.
    objects = dict(spec.object_limits)
    for name in sorted(objects, key=lambda each: each not in _PODS):
        if ("quota", "objects", name) in refused and name in hard:
            now = replace(spec, object_limits=tuple(objects.items()))
            ours = {key: value for each in quota.resource_quotas(now) for key, value in each["spec"]["hard"].items()}
            objects[name] = _less(hard[name], ours[name], objects[name])
    return replace(spec, object_limits=tuple(objects.items()))


def _less(there: str, ours: str, value: str) -> str:
    """A limit as it runs: what the host counts up to, without what it counts of the platform's own beside the tenant's."""
    try:
        return str(max(0, int(parse(there) - (parse(ours) - parse(value)))))
    except InvalidQuantityError:
        return value
