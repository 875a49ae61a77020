"""Keeps the classes that the host offers in the plane: StorageClasses, PriorityClasses, RuntimeClasses and others.

They change rarely and a watch costs memory on both sides, so both are listed at the start and then once a minute; what a
tenant changes on them is set right then. A list that fails leaves everything as it was. What is written is decided in
`translate/kinds/classes.py`.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Final, NoReturn

from bulkhead.api.objects import Obj
from bulkhead.kube.client import Client
from bulkhead.kube.errors import AlreadyExists, ApiError, Forbidden, KubeError, NotFound
from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import resource_of
from bulkhead.work.clock import Clock
from syncer import metrics
from syncer.translate.kinds import classes
from syncer.translate.view import TenantView
from syncer.watch.informers import Caches

_log = logging.getLogger(__name__)

# The kinds whose objects name a class of storage.
OF_STORAGE: Final = ("PersistentVolumeClaim", "VolumeSnapshot")
SECONDS: Final = 60.0
# The controller creates APIs in the plane while the syncer starts.
EARLY_SECONDS: Final = 10.0
# How often a refused class comes early, in a row. An API server refuses classes while it starts; a tenant's webhook, for ever.
MOST_EARLY: Final = 6


class HostClasses:
    """Lists both sides and writes the difference into the plane."""

    def __init__(self, caches: Caches, plane: Client, host: Client, clock: Clock) -> None:
        self._caches = caches
        self._plane = plane
        self._host = host
        self._clock = clock
        self._runtimes: list[Obj] = []
        self._early = False
        self._whole = False
        self._refused = False
        # Called once claims may name other classes than before.
        self.on_offer: Callable[[], object] = lambda: None

    async def run(self) -> NoReturn:
        """Reconcile once a minute, for ever; sooner after a time that did not come to its end, or that was refused a class."""
        refused = 0
        while True:
            for _ in range(int(SECONDS / EARLY_SECONDS)):
                await self._clock.sleep(EARLY_SECONDS)
                if self._early or not self._whole or (self._refused and refused < MOST_EARLY):
                    break
            refused = refused + 1 if self._refused else 0
            await self.reconcile()

    async def reconcile(self) -> None:
        """List both sides once and write the difference."""
        self._whole, self._refused, before = False, False, _of_storage(self._caches.views.static)
        try:
            await self._list_and_write()
            self._whole = True
        finally:
            # Also one that failed half way may have learnt something.
            if _of_storage(self._caches.views.static) != before:
                self.on_offer()

    async def _list_and_write(self) -> None:
        for kind, offer in classes.OFFERS.items():
            if kind == classes.SNAPSHOT_CLASS:
                continue
            r = resource_of(offer.api_version, kind)
            try:
                hosts = (await self._host.list(r)).items
            except NotFound:
                continue  # a host of a version that has no such kind
            except Forbidden as error:
                _log.warning("classes not offered: %s", error, extra={"kind": kind})
                continue
            wanted = self._wanted(kind, hosts)
            if kind == "StorageClass":
                names = frozenset(str(offered["metadata"]["name"]) for offered in wanted)
                self._caches.views.offer_storage(names, classes.default_storage(wanted))
            there = (await self._plane.list(r)).items
            if kind == "RuntimeClass":
                self._runtimes = wanted
                self._caches.views.offer_runtimes(classes.runtime_aliases(wanted, there))
            await self._write(r, offer, wanted, there)
        if self._caches.settings.allowed_snapshot_classes:
            await self._snapshot_classes()

    async def learn_runtime(self, name: str) -> None:
        """Read one RuntimeClass of the tenant's own now: a pod names it, and nothing is known of it yet."""
        view = self._caches.view()
        if not self._runtimes or name in view.runtime_aliases or name in view.allowed_runtime_classes:
            return
        with contextlib.suppress(NotFound):
            found = await self._plane.get(resource_of("node.k8s.io/v1", "RuntimeClass"), name)
            known = self._caches.view().runtime_aliases
            self._caches.views.offer_runtimes({**known, **classes.runtime_aliases(self._runtimes, [found])})

    async def _snapshot_classes(self) -> None:
        """The classes of an API that either side may lack, and whose definition the tenant may change in its plane."""
        offer = classes.OFFERS[classes.SNAPSHOT_CLASS]
        r = resource_of(offer.api_version, offer.kind)
        try:
            wanted = self._wanted(offer.kind, (await self._host.list(r)).items)
        except NotFound as error:
            _log.info("snapshot classes not offered: %s", error)
            wanted = []
        except Forbidden as error:
            # What is offered stays: a refusal says nothing of what the host has.
            _log.warning("classes not offered: %s", error, extra={"kind": offer.kind})
            return
        self._caches.views.offer_snapshots(
            frozenset(str(offered["metadata"]["name"]) for offered in wanted), classes.default_snapshot_class(wanted)
        )
        try:
            await self._write(r, offer, wanted, (await self._plane.list(r)).items)
        except KubeError as error:
            self._early = isinstance(error, NotFound | Forbidden)
            _log.info("snapshot classes not shown: %s", error)
        else:
            self._early = False

    def _wanted(self, kind: str, hosts: list[Obj]) -> list[Obj]:
        settings = self._caches.settings
        allowed = {
            "StorageClass": settings.allowed_storage_classes,
            "PriorityClass": settings.allowed_priority_classes,
            "RuntimeClass": settings.allowed_runtime_classes,
            "DeviceClass": settings.allowed_device_classes,
            "IngressClass": settings.allowed_ingress_classes,
            classes.SNAPSHOT_CLASS: settings.allowed_snapshot_classes,
        }[kind]
        select = classes.offered_storage if kind == "StorageClass" else classes.offered
        return select(hosts, frozenset(allowed))

    async def _write(self, r: Resource, offer: classes.Offer, wanted: list[Obj], there: list[Obj]) -> None:
        for step in classes.steps(offer, wanted, there):
            try:
                await self._step(r, step)
            except ApiError as error:
                # An API server that starts, a webhook of the tenant, or a class of its own that took this name in the meantime.
                self._refused = True
                _log.warning("class not written: %s", error, extra={"kind": r.kind, "object": step.name})

    async def _step(self, r: Resource, step: classes.Step) -> None:
        metrics.virtual_write(r.kind, step.verb)
        if step.verb in {"delete", "replace"}:
            await self._plane.delete(r, step.name)
        if step.verb == "patch":
            await self._plane.patch(r, step.name, step.body)
        if step.verb in {"create", "replace"}:
            try:
                await self._plane.create(r, step.body)
            except AlreadyExists:
                return
        _log.info("class of the host: %s", step.verb, extra={"kind": r.kind, "object": step.name})


def _of_storage(view: TenantView) -> tuple[object, ...]:
    return view.storage_classes, view.default_storage_class, view.snapshot_classes, view.default_snapshot_class
