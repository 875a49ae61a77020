"""SharedVolumes and the PersistentVolumes they name, as the host has them, and a tenant's own volumes and claims on the host.

    SharedVolumes ──> informer ──> every tenant looks at once
    PersistentVolume that one names ──> read when a tenant looks, and kept for half a minute

That something is not there is believed only when the host says so: until SharedVolumes were read, nothing is known of any.
"""

from collections.abc import Callable, Iterable

from bulkhead.api import labels, names
from bulkhead.api.untrusted import mapping, text
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Obj
from bulkhead.work.clock import Clock
from controller.shares.content import Absent, Unusable
from controller.shares.volumes.decide import Claim, Make, Remove, Step, There, Volume
from controller.shares.volumes.objects import host_claim, host_volume
from controller.shares.volumes.offers import Offer, is_for, offer_of, volume_named

_READ_AGAIN_SECONDS = 30.0
_MOST_BYTES = 16 * 1024 * 1024
_Found = Obj | Absent | Unusable


class HostVolumes:
    """One host."""

    def __init__(self, client: Client, clock: Clock, types: Iterable[str], on_change: Callable[[], object]) -> None:
        self._client = client
        self._clock = clock
        self._types = tuple(types)
        # Every tenant asks for all of them, at each of its reconciles too.
        self._decoded: list[Obj] | None = None

        def heard(_: Change) -> None:
            self._decoded = None
            on_change()

        # Before the definitions of an upgrade have come there is no such kind.
        self._shared = Informer(client, kinds.SHARED_VOLUMES, on_change=heard, max_bytes=_MOST_BYTES, optional=True)
        self._volumes: dict[str, tuple[float, _Found]] = {}
        self._known: dict[str, Offer] = {}

    async def run(self) -> None:
        """Keep up until cancelled."""
        await self._shared.run()

    def given(self, tenant: str, class_name: str) -> frozenset[str] | None:
        """The SharedVolumes that a tenant is given; None: that is not known yet."""
        if not self._shared.has_synced:
            return None
        return frozenset(text(each["metadata"]["name"]) for each in self._all() if is_for(each, tenant, class_name))

    async def offers(self) -> dict[str, Offer | Unusable]:
        """What each SharedVolume is now."""
        found = {text(each["metadata"]["name"]): await self._offer(each) for each in self._all()}
        self._known = {
            name: offer if isinstance(offer, Offer) else self._known[name]
            for name, offer in found.items()
            if isinstance(offer, Offer) or name in self._known
        }
        return found

    def known(self) -> tuple[Offer, ...]:
        """Each SharedVolume as it was when it was last sound."""
        return tuple(self._known.values())

    async def there(self, tenant: str) -> There:
        """What the host has for one tenant."""
        selector = f"{labels.tenant_selector(tenant)},{labels.SHARED_VOLUME}"
        volumes = await self._client.list(kinds.PERSISTENT_VOLUMES, label_selector=selector)
        claims = await self._client.list(kinds.PERSISTENT_VOLUME_CLAIMS, names.work_namespace(tenant), label_selector=selector)
        return There(tuple(map(volume_of, volumes.items)), tuple(map(claim_of, claims.items)))

    async def do(self, step: Step) -> None:
        """Do one step on the host."""
        match step:
            case Make("volume", grant, _):
                await self._create(host_volume(grant))
            case Make("claim", grant, _):
                await self._create(host_claim(grant))
            case Remove(kind, namespace, name, uid):
                r = kinds.PERSISTENT_VOLUMES if kind == "volume" else kinds.PERSISTENT_VOLUME_CLAIMS
                try:
                    await self._client.delete(r, name, namespace or None, uid=uid)
                except (NotFound, Conflict):
                    return
            case _:
                raise TypeError(f"not a step on the host: {step}")

    async def _create(self, obj: Obj) -> None:
        r = kinds.resource_of("v1", str(obj["kind"]))
        try:
            await self._client.create(r, obj)
        except AlreadyExists:
            # Another's, or one that came just now: the next look sees which.
            return

    def _all(self) -> list[Obj]:
        if self._decoded is None:
            self._decoded = list(self._shared.store.objects())
        return self._decoded

    async def _offer(self, shared: Obj) -> Offer | Unusable:
        named = volume_named(shared)
        return offer_of(shared, await self._volume(named) if named else None, self._types)

    async def _volume(self, name: str) -> _Found:
        now = self._clock.monotonic()
        at, found = self._volumes.get(name, (0.0, None))
        if found is None or now - at > _READ_AGAIN_SECONDS:
            found = await self._read(name)
            self._volumes = {key: kept for key, kept in self._volumes.items() if now - kept[0] <= _READ_AGAIN_SECONDS}
            self._volumes[name] = (now, found)
        return found

    async def _read(self, name: str) -> _Found:
        try:
            return await self._client.get(kinds.PERSISTENT_VOLUMES, name)
        except NotFound:
            return Absent()
        except KubeError as error:
            return Unusable(f"PersistentVolume {name} was not read: {error}")


def volume_of(obj: Obj) -> Volume:
    """A volume as decisions see it."""
    meta = obj["metadata"]
    return Volume(
        name=text(meta.get("name")),
        shared=text(mapping(meta.get("labels")).get(labels.SHARED_VOLUME)),
        uid=text(meta.get("uid")),
        phase=text(mapping(obj.get("status")).get("phase")),
        digest=text(mapping(meta.get("annotations")).get(labels.SHARED_DIGEST)),
        going="deletionTimestamp" in meta,
    )


def claim_of(obj: Obj) -> Claim:
    """A claim as decisions see it."""
    meta = obj["metadata"]
    return Claim(
        namespace=text(meta.get("namespace")),
        name=text(meta.get("name")),
        shared=text(mapping(meta.get("labels")).get(labels.SHARED_VOLUME)),
        uid=text(meta.get("uid")),
        phase=text(mapping(obj.get("status")).get("phase")),
        volume=text(mapping(obj.get("spec")).get("volumeName")),
        going="deletionTimestamp" in meta,
    )
