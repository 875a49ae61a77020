"""A host on which a plane is restored, or a clone made: a controller that can be replaced, and what a kubelet would do there.

`Dying` is the client of a controller that dies right after one of its writes.
"""

import base64
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from bulkhead.api import labels, names, planeidentity, planerecord
from bulkhead.api.conditions import find_condition
from bulkhead.api.objects import Obj
from bulkhead.api.planerecord import PlaneRecord
from bulkhead.kube import resources as kinds
from bulkhead.kube.client import Client
from bulkhead.kube.errors import KubeError, NotFound
from bulkhead.kube.objects import Resource
from bulkhead.snapshots.bundle import Bundle
from bulkhead.snapshots.manifest import PURPOSE
from controller.host.restores import Restores
from controller.inside.access import PlaneHealth
from controller.pki.material import files_of
from controller.restores.status import Compared
from controller.tenant.facets.restores.comparing import Comparing
from controller.tenant.facets.restores.host import FILE, OF, SECRET
from controller.tenant.interior import Interior
from controller.tenant.reconcile import ReconcileFailed
from tests.kit import lag
from tests.kit.background import background
from tests.kit.controllerhost import ControllerHost, FixedKeys
from tests.kit.syncerbed import until
from tests.snapshots.samples import GOLDEN

RING = FixedKeys.held
OTHER = "00000000-1111-7777-6666-555555555555"


@dataclass
class World:
    """A host with a controller that can be replaced, and what a kubelet and the workload controllers do."""

    client: Client
    name: str
    controller: ControllerHost | None = None
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def start(self, client: Client | None = None) -> None:
        """Another controller, in place of the one before."""
        await self._stack.aclose()
        client = client or self.client
        restores = Restores(client, lambda _: None)
        await self._stack.enter_async_context(background(restores.run()))
        self.controller = await self._stack.enter_async_context(ControllerHost(client, restores=restores))
        self.restores = restores

    async def close(self) -> None:
        await self._stack.aclose()

    @property
    def space(self) -> str:
        return names.plane_namespace(self.name)

    async def turn(self) -> None:
        """Reconcile once, with present copies."""
        assert self.controller is not None
        await self.controller.caught_up()

        async def seen() -> bool:
            return await lag.caught_up(self.restores._informer)

        await until(seen, "the copies of TenantRestores")
        with contextlib.suppress(ReconcileFailed):
            await self.controller.reconciler.reconcile(self.name)

    async def turns(self, count: int = 3) -> None:
        for _ in range(count):
            await self.turn()

    async def find(self, resource: Any, name: str, namespace: str | None = None) -> Obj | None:
        try:
            return await self.client.get(resource, name, self.space if namespace is None and resource.namespaced else namespace)
        except NotFound:
            return None

    async def obey(self) -> None:
        """What the host's controllers do with workloads, but for pods."""
        for resource, name in ((kinds.STATEFUL_SETS, "plane"), (kinds.DEPLOYMENTS, "syncer")):
            found = await self.find(resource, name)
            if found is not None:
                status = {"observedGeneration": found["metadata"]["generation"], "replicas": found["spec"]["replicas"]}
                await self.client.patch(resource, name, {"status": status}, self.space, subresource="status")

    async def replicas(self) -> tuple[int | None, int | None]:
        plane, syncer = await self.find(kinds.STATEFUL_SETS, "plane"), await self.find(kinds.DEPLOYMENTS, "syncer")
        return (plane and plane["spec"]["replicas"], syncer and syncer["spec"]["replicas"])  # type: ignore[return-value]

    async def filler(self) -> Obj | None:
        return await self.find(kinds.DEPLOYMENTS, "plane-restore-0")

    async def note(self) -> planeidentity.Recorded:
        return planeidentity.recorded(await self.find(kinds.CONFIG_MAPS, planeidentity.NAME))

    async def fill(self, number: int = 0) -> None:
        """A filling pod that is ready."""
        filler = await self.find(kinds.DEPLOYMENTS, f"plane-restore-{number}")
        assert filler is not None
        name = f"filler-{number}" if number else "filler"
        template = filler["spec"]["template"]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": template["metadata"]["labels"]},
            # As it is: the namespace enforces Pod Security.
            "spec": template["spec"],
        }
        await self.client.create(kinds.PODS, body, self.space)
        await self.client.patch(
            kinds.PODS,
            name,
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
            self.space,
            subresource="status",
        )

    async def bring(self, bundle: Bundle, uid: str) -> None:
        """The keys, as the command brings them."""
        data = {FILE: bundle.data(), OF: uid.encode()}
        meta = {"name": SECRET, "labels": labels.made_for(self.name)}
        encoded = {name: base64.b64encode(content).decode() for name, content in data.items()}
        await self.client.create(kinds.SECRETS, {"metadata": meta, "type": "Opaque", "data": encoded}, self.space)

    async def told(self, name: str) -> tuple[str, str]:
        found = await self.client.get(kinds.TENANT_RESTORES, name)
        told = find_condition((found.get("status") or {}).get("conditions") or [], "Complete") or {}
        return str(told.get("reason")), str(told.get("message"))


def bundle_of(name: str, record: str, service_slice: str, secrets: Mapping[str, Mapping[str, bytes]]) -> Bundle:
    return Bundle(record, {"metadata": {"name": name}, "spec": {"class": "standard"}}, service_slice, secrets)


async def restore(world: World, restore_name: str = "", clone_of: str = "", **changes: Any) -> tuple[Obj, Bundle]:
    """Ask for a restore of this tenant's own plane, or of what is changed; for a clone if there is an original."""
    tenant = await world.find(kinds.TENANTS, world.name)
    status = (tenant or {}).get("status") or {}
    identity, uid = status.get("planeIdentity") or OTHER, ((tenant or {}).get("metadata") or {}).get("uid") or OTHER
    known: dict[str, Any] = {
        "identity": identity,
        "tenant": world.name,
        "tenant_uid": uid,
        "service_slice": status.get("serviceSlice") or "10.112.64.0/22",
    }
    known |= changes
    of = PlaneRecord(known["identity"], known["tenant"], known["tenant_uid"], "2026-06-01T12:00:00Z")
    record = RING.sign(planerecord.PURPOSE, of.text())
    manifest = replace(GOLDEN, record=record, **known)
    body: Obj = {
        "apiVersion": names.API_VERSION,
        "kind": "TenantRestore",
        "metadata": {"name": restore_name or f"{world.name}-1"},
        "spec": {"tenant": world.name, "manifest": RING.sign(PURPOSE, manifest.text())},
    }
    if clone_of:
        body["spec"]["cloneOf"] = clone_of
    request = await world.client.create(kinds.TENANT_RESTORES, body)
    files: dict[str, Mapping[str, bytes]] = {}
    for name in ("pki-service-account", "pki-ca-etcd", "pki-ca-users"):
        secret = await world.find(kinds.SECRETS, name)
        if secret is not None:
            files[name] = files_of(secret)
    return request, bundle_of(world.name, record, str(known["service_slice"]), files)


def answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plane answers with all that it starts with from now on, and knows all that the host has."""

    async def health(*_: object) -> PlaneHealth:
        return PlaneHealth(ready=True, message="the API server answers")

    async def bootstrap(_: object, __: object, health: PlaneHealth) -> PlaneHealth:
        return replace(health, bootstrapped=True)

    async def complete(_: object, __: object, health: PlaneHealth) -> PlaneHealth:
        return health

    async def compare(*_: object) -> Compared:
        return Compared()

    monkeypatch.setattr(Interior, "health", health)
    monkeypatch.setattr(Interior, "bootstrap", bootstrap)
    monkeypatch.setattr(Interior, "complete", complete)
    monkeypatch.setattr(Comparing, "compare", compare)


class Killed(BaseException):
    """The controller died."""


class Dying(Client):
    """The host's client of a controller that dies right after the next write or deletion that changes anything."""

    async def delete(self, r: Resource, name: str, namespace: str | None = None, **options: Any) -> Obj | None:
        path = r.path(namespace, name)
        before = await self._version(path)
        done = await super().delete(r, name, namespace, **options)
        if before != await self._version(path):
            raise Killed(path)
        return done

    async def _write(self, method: str, path: str, body: Any, **options: Any) -> Any:
        before = await self._version(path)
        done = await super()._write(method, path, body, **options)
        if before != done["metadata"].get("resourceVersion"):
            raise Killed(path)
        return done

    async def _version(self, path: str) -> str:
        with contextlib.suppress(KubeError):
            return str(json.loads(await self.get_raw(path.removesuffix("/status")))["metadata"]["resourceVersion"])
        return ""


async def die_until_quiet(world: World) -> list[str]:
    """Controllers that die after each of their writes, until one has nothing to write; returns after which ones they died."""
    deaths = list[str]()
    for _ in range(30):
        async with Dying(world.client.config, user_agent="dying", field_manager="bulkhead-controller") as dying:
            await world.start(dying)
            try:
                await world.turn()
            except Killed as killed:
                deaths.append(str(killed))
            else:
                return deaths
        await world.obey()
    raise AssertionError(f"each controller wrote something: {deaths}")
