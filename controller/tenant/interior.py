"""The inside of a tenant's plane: whether its API server answers, and the objects that every plane starts with."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from bulkhead.api.objects import Obj
from bulkhead.api.podphase import is_pending_deletion, serves
from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import KubeError
from bulkhead.kube.objects import Key
from bulkhead.work.clock import Clock
from controller.decide.plan import Plan
from controller.host.owned import Owned
from controller.inside.access import PlaneAccess, PlaneHealth
from controller.plane.secrets import KeyMaterial
from controller.plane.spec import PLANE, PlaneSpec

_log = logging.getLogger(__name__)
# When a plane that answers is asked once more that did not take its bootstrap: one that has just started does so soon.
_AGAIN_SECONDS: Final = (5.0, 10.0, 20.0, 40.0, 80.0)
# When a plane that starts is asked once more for what its own controllers make: they do so within moments.
_COMPLETE_AGAIN_SECONDS: Final = 1.0


class Interior:
    """Reconciles the insides of all planes; applies the objects again when the resync interval has passed."""

    def __init__(self, owned: Owned, planes: PlaneAccess, clock: Clock, *, resync_seconds: float) -> None:
        self._owned = owned
        self._planes = planes
        self._clock = clock
        self._resync_seconds = resync_seconds
        # Tenant -> the objects, when they were applied, and the identity of the plane at that time.
        self._bootstrapped: dict[str, tuple[tuple[Obj, ...], float, str]] = {}
        # How often a plane that answers did not take its bootstrap, one time after the other.
        self._tries: dict[str, int] = {}
        # Tenants whose plane has shown that its own controllers made what the first pod needs.
        self._complete: set[str] = set()

    async def health(self, made: Plan, keys: KeyMaterial) -> PlaneHealth:
        """The health that the plane's API server reports. Asks a serving member, and the next one if that does not answer."""
        spec = made.spec
        pods = self._members(spec)
        if not pods:
            return PlaneHealth(message="the plane's pod does not exist")
        serving = [pod for pod in pods if serves(pod)]
        return await self._planes.health(spec, keys, list(_addresses(serving or pods[:1]).values()))

    def addresses(self, spec: PlaneSpec) -> dict[str, str]:
        """The addresses of a plane's members that have one, by pod."""
        return _addresses(self._members(spec))

    def _members(self, spec: PlaneSpec) -> list[Obj]:
        """The pods of a plane's members, without those that are being deleted."""
        keys = (Key(spec.namespace, f"{PLANE}-{number}") for number in range(spec.control_plane.replicas))
        found = (self._owned.get(kinds.PODS, key) for key in keys)
        return [pod for pod in found if pod is not None and not is_pending_deletion(pod)]

    async def bootstrap(self, made: Plan, health: PlaneHealth) -> PlaneHealth:
        """Apply the objects that every plane starts with, if the plane answers."""
        spec = made.spec
        if not health.ready:
            self._bootstrapped.pop(spec.tenant, None)
            self._tries.pop(spec.tenant, None)
            self._complete.discard(spec.tenant)
            return health
        again: float | None = None
        done, at, uid = self._bootstrapped.get(spec.tenant, ((), 0.0, ""))
        if done != made.bootstrap or self._clock.monotonic() - at > self._resync_seconds:
            try:
                uid, whole = await self._planes.bootstrap(spec, made.bootstrap, made.withdrawn)
            except (KubeError, TimeoutError) as error:
                # A webhook in the plane may reject them: the rest of the reconcile goes on.
                _log.warning("cannot apply the bootstrap objects: %s", error, extra={"tenant": spec.tenant})
                message = f"the plane rejects its bootstrap objects: {error}"
                return PlaneHealth(ready=True, message=message, again=self._sooner(spec.tenant))
            if whole:
                self._tries.pop(spec.tenant, None)
                self._bootstrapped[spec.tenant] = (made.bootstrap, self._clock.monotonic(), uid)
            else:
                again = self._sooner(spec.tenant)
        return PlaneHealth(ready=True, bootstrapped=True, message=health.message, cluster_uid=uid, again=again)

    async def complete(self, made: Plan, health: PlaneHealth) -> PlaneHealth:
        """The health with what a plane that was not ready before still lacks. It is asked until it lacks nothing."""
        tenant = made.spec.tenant
        if not health.bootstrapped or tenant in self._complete:
            return health
        try:
            lacks = await self._planes.lacks(made.spec)
        except (KubeError, TimeoutError) as error:
            return replace(health, lacks=f"the plane does not tell what it has: {error}", again=_COMPLETE_AGAIN_SECONDS)
        if lacks:
            words = f"the plane's kube-controller-manager has not made {lacks} yet"
            return replace(health, lacks=words, again=_COMPLETE_AGAIN_SECONDS)
        self._complete.add(tenant)
        return health

    def _sooner(self, tenant: str) -> float | None:
        """When to try again what the plane could not take: soon, then less soon, then as often as anything is looked at."""
        tried = self._tries.get(tenant, 0)
        self._tries[tenant] = tried + 1
        return _AGAIN_SECONDS[tried] if tried < len(_AGAIN_SECONDS) else None

    async def forget(self, tenant: str) -> None:
        """Drop the records of a tenant's plane."""
        await self._planes.forget(tenant)
        self._bootstrapped.pop(tenant, None)
        self._tries.pop(tenant, None)
        self._complete.discard(tenant)


def _addresses(pods: Iterable[Obj]) -> dict[str, str]:
    found = {str(pod["metadata"]["name"]): (pod.get("status") or {}).get("podIP") for pod in pods}
    return {name: str(address) for name, address in found.items() if address}
