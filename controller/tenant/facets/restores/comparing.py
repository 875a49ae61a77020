"""Compares what the syncer has made on the host with a plane that was restored: what the plane does not know is named."""

from collections.abc import Mapping
from typing import Final

import msgspec

from bulkhead.kube import resources as kinds
from bulkhead.kube.errors import Gone, KubeError, may_pass
from bulkhead.kube.objects import Resource
from bulkhead.snapshots.contents import unknown
from controller.inside.access import PlaneAccess
from controller.inside.budget import Budget
from controller.inside.calls import Plane
from controller.inside.counted import Counted, Page
from controller.plane.spec import PlaneSpec
from controller.restores.status import Compared
from controller.tenant.facets.restores.host import RestoreHost

# What users miss if it goes. The rest follows from these: the syncer makes it again.
KINDS: Final[Mapping[str, Resource]] = {
    "pod": kinds.PODS,
    "volume claim": kinds.PERSISTENT_VOLUME_CLAIMS,
    "Service": kinds.SERVICES,
}
_MOST_OBJECTS: Final = 20_000
_SECONDS: Final = 60.0


class _Named(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Object(Counted, frozen=True):
    metadata: _Named


_page: Final = msgspec.json.Decoder(Page[_Object])


class Comparing:
    """Compares hosts with planes."""

    def __init__(self, host: RestoreHost, planes: PlaneAccess, budget: Budget) -> None:
        self._host = host
        self._planes = planes
        self._budget = budget

    async def compare(self, spec: PlaneSpec) -> Compared:
        """What the plane does not know; or the trouble, if a server does not tell."""
        try:
            async with self._budget.turn(spec.tenant, _SECONDS) as turn:
                plane = self._planes.plane(turn)
                if plane is None:
                    return Compared(trouble="the plane's API server does not answer", passing=True)
                found = [name for what, resource in KINDS.items() for name in await self._of(spec, plane, what, resource)]
        except (KubeError, TimeoutError) as error:
            # Gone: a list took so long that its next page was forgotten.
            passing = may_pass(error) or isinstance(error, Gone)
            return Compared(trouble=str(error) or "a server did not answer in time", passing=passing)
        return Compared(tuple(found))

    async def _of(self, spec: PlaneSpec, plane: Plane, what: str, resource: Resource) -> list[str]:
        mirrored = await self._host.mirrored(spec, resource)
        if not mirrored:
            return []
        inside = await plane.list(resource, shape=_page, metadata_only=True, most=_MOST_OBJECTS)
        uids = {
            f"{obj['metadata'].get('namespace', '')}/{obj['metadata'].get('name', '')}": str(obj["metadata"].get("uid", ""))
            for obj in inside
        }
        return [f"{what} {name}" for obj in mirrored if (name := unknown(obj, uids))]
