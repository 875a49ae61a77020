"""Reads the platform's volumes and claims in a plane, and does the decided steps. All calls are bounded (`inside.calls`)."""

import msgspec

from bulkhead.api import labels
from bulkhead.kube import resources as kinds
from bulkhead.kube.objects import Resource
from controller.inside.calls import Plane
from controller.inside.counted import Counted, Page
from controller.shares.volumes.decide import MOST_CLAIMS, Bind, Kind, Make, Release, Remove, Step, There
from controller.shares.volumes.host import claim_of, volume_of
from controller.shares.volumes.objects import bound_status, plane_claim, plane_volume, plane_volume_name

_OURS = f"{labels.PLATFORM}=true,{labels.SHARED_VOLUME}"
_MOST_LISTED = 2 * MOST_CLAIMS


class _Meta(Counted, frozen=True, rename="camel", omit_defaults=True):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Spec(Counted, frozen=True, rename="camel", omit_defaults=True):
    volume_name: str = ""


class _Status(Counted, frozen=True, omit_defaults=True):
    phase: str = ""


class _Shown(Counted, frozen=True, omit_defaults=True):
    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


_shown = msgspec.json.Decoder(Page[_Shown])


async def there(plane: Plane) -> There:
    """The platform's volumes and claims in the plane."""
    volumes = await plane.list(kinds.PERSISTENT_VOLUMES, shape=_shown, label_selector=_OURS, most=_MOST_LISTED)
    claims = await plane.list(kinds.PERSISTENT_VOLUME_CLAIMS, shape=_shown, label_selector=_OURS, most=_MOST_LISTED)
    return There(tuple(map(volume_of, volumes)), tuple(map(claim_of, claims)))


async def do(plane: Plane, step: Step) -> None:
    """Do one step; raises the plane's error."""
    match step:
        case Make("volume", grant, namespace):
            await plane.create(kinds.PERSISTENT_VOLUMES, plane_volume(grant, namespace))
        case Make("claim", grant, namespace):
            await plane.create(kinds.PERSISTENT_VOLUME_CLAIMS, plane_claim(grant, namespace))
        case Bind("volume", grant, namespace):
            name = plane_volume_name(grant.claim, namespace)
            await plane.patch(kinds.PERSISTENT_VOLUMES, name, {"status": {"phase": "Bound"}}, subresource="status")
        case Bind(_, grant, namespace):
            body = {"status": bound_status(grant)}
            await plane.patch(kinds.PERSISTENT_VOLUME_CLAIMS, grant.claim, body, namespace, subresource="status")
        case Release(name, uid):
            body = {"metadata": {"uid": uid}, "status": {"phase": "Released"}}
            await plane.patch(kinds.PERSISTENT_VOLUMES, name, body, subresource="status")
        case Remove(kind, namespace, name, uid):
            await plane.delete(_resource(kind), name, namespace or None, uid=uid)


def _resource(kind: Kind) -> Resource:
    return kinds.PERSISTENT_VOLUMES if kind == "volume" else kinds.PERSISTENT_VOLUME_CLAIMS
