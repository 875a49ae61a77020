"""The watched copies of both sides, and how a change on either becomes a key in the queue.

Nothing is decided here. Virtual ConfigMaps and Secrets are watched as metadata only, and so are their host copies: bodies are
read when a pod needs them, so a tenant's flood of ConfigMaps is not a flood of memory here.

    virtual: pods services namespaces* configmaps* secrets* nodes     (* metadata only)
    host:    pods services configmaps* secrets* of the work namespace, marked; nodes of the pool; events; quota
    change ──> Item(kind, virtual key) ──> queue, fresh when told by an event, backfill when found by a list
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from bulkhead.api import labels as marks
from bulkhead.api.serviceenv import ServiceEnv, ServicePort
from bulkhead.kube.client import Client
from bulkhead.kube.informer import Change, Informer
from bulkhead.kube.objects import Key, Meta, Obj, Resource
from bulkhead.kube.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NETWORK_POLICIES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    resource_of,
)
from bulkhead.work.queue import Lane
from syncer import metrics
from syncer.settings import Settings
from syncer.translate import origin
from syncer.translate.kinds import networkpolicy, nodemarks, nodeports, tokens
from syncer.translate.metadata import Identity
from syncer.translate.registry import KINDS
from syncer.translate.view import TenantView, Toleration
from syncer.work import UNPLACED, Item, Queue

_MIB: Final = 1024 * 1024
# Of most kinds a tenant has few objects, and what it makes more of must not fill the memory.
_FEW: Final = 24
SILENT_SECONDS: Final = 150.0
# API servers keep no watch cache of events and so send no bookmarks for them: their watch may be silent until its end.
_EVENT_SILENCE: Final = 900.0
_OPTIONAL: Final = frozenset({"Event"})
# How long a start waits for an API that a side need not serve, and that a tenant may have bent in its plane.
_OPTIONAL_SECONDS: Final = 5.0
# Mirrored kinds whose virtual side is watched in a way of its own.
_OWN: Final = frozenset({"Pod", "Service", "ConfigMap", "Secret", "NetworkPolicy"})
MIRRORED: Final[Mapping[str, Resource]] = {kind: resource_of(each.api_version, kind) for kind, each in KINDS.items()}


_MARKS_DELAY: Final = 1.0

Listener = Callable[[Change], None]


class Caches:
    """Informers of both sides and what is derived from them."""

    def __init__(self, settings: Settings, virtual: Client, host: Client, queue: Queue) -> None:
        self.settings = settings
        self._queue = queue
        self._static = _static_view(settings)
        self._view: TenantView | None = None
        # Counts the views that there were: the same number, the same view.
        self._views = 0
        # Others who want to hear of raw changes: (side, kind) -> listeners.
        self.listeners: dict[tuple[str, str], list[Listener]] = {}
        # Told of every key that an event, and not a round of the patrol, made work.
        self.news: Callable[[Item], None] = lambda _item: None
        self._refers: Callable[[str, Key], bool] = lambda _kind, _key: True
        # What the tenant itself wrote on virtual nodes.
        self._marks: dict[str, nodemarks.Marks] = {}
        # The mirrored kinds that this tenant may use.
        self.kinds = {kind: r for kind, r in MIRRORED.items() if KINDS[kind].offered(self._static)}
        self.virtual = self._virtual_side(virtual)
        self.host = self._host_side(host)

    def _virtual_side(self, client: Client) -> dict[str, Informer]:
        def make(r: Resource, on_change: Listener, *, lean: bool = False, mib: int = 64) -> Informer:
            return Informer(
                client, r, on_change=on_change, metadata_only=lean, max_bytes=mib * _MIB, optional=_optional(r.kind)
            )

        return {
            "Pod": make(PODS, self._told("Pod"), mib=128),
            "Service": make(SERVICES, self._told("Service")),
            **{kind: make(r, self._told(kind), mib=_FEW) for kind, r in self.kinds.items() if kind not in _OWN},
            "NetworkPolicy": make(NETWORK_POLICIES, self._policy_changed, mib=_FEW),
            "Namespace": make(NAMESPACES, self._namespace_changed, lean=True),
            "ConfigMap": make(CONFIG_MAPS, self._told("ConfigMap", referenced=True), lean=True),
            "Secret": make(SECRETS, self._told("Secret", referenced=True), lean=True),
            "Node": make(NODES, self._virtual_node_changed),
        }

    def _host_side(self, client: Client) -> dict[str, Informer]:
        work = self.settings.work_namespace
        marked = f"{marks.SYNCED}={marks.SYNCED_BY_SYNCER}"
        pool = [f"{key}={value}" for key, value in sorted(self.settings.nodes.selector.items())]
        if marks.TENANT not in self.settings.enforced_node_selector:
            # Those that bear it are another tenant's alone.
            pool.append(f"!{marks.TENANT}")

        def make(r: Resource, *, lean: bool = False) -> Informer:
            changed = self._mirror_changed(r.kind)
            return Informer(
                client,
                r,
                namespace=work,
                label_selector=marked,
                on_change=changed,
                metadata_only=lean,
                optional=_optional(r.kind),
            )

        return {
            **{kind: make(r) for kind, r in self.kinds.items() if kind not in {"ConfigMap", "Secret"}},
            "ConfigMap": make(CONFIG_MAPS, lean=True),
            "Secret": make(SECRETS, lean=True),
            "Node": Informer(client, NODES, label_selector=",".join(pool) or None, on_change=self._host_node_changed),
            "ResourceQuota": Informer(client, RESOURCE_QUOTAS, namespace=work, on_change=self._plain("ResourceQuota")),
            "Event": Informer(
                client, EVENTS, namespace=work, on_change=self._plain("Event"),
                inactivity=_EVENT_SILENCE,
                max_bytes=16 * _MIB,
            ),
        }  # fmt: skip

    def refers(self, predicate: Callable[[str, Key], bool]) -> None:
        """Tell which ConfigMaps and Secrets matter: only their changes become work."""
        self._refers = predicate

    def listen(self, side: str, kind: str, listener: Listener) -> None:
        """Hear every change of one kind on one side."""
        self.listeners.setdefault((side, kind), []).append(listener)

    # -- readiness

    async def synced(self) -> None:
        """Wait until everything was listed once, but not for long for an API that may be missing or bent."""
        informers = [*self.virtual.items(), *self.host.items()]
        for kind, informer in informers:
            if not _optional(kind):
                await informer.synced()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_OPTIONAL_SECONDS):
                for kind, informer in informers:
                    if _optional(kind):
                        await informer.synced()

    def unready(self) -> list[str]:
        """What is not synced or has been silent for too long; also sets the metric per side."""
        missing: list[str] = []
        for side, informers in (("virtual", self.virtual), ("host", self.host)):
            late = [
                kind
                for kind, each in informers.items()
                if not _optional(kind) and (not each.has_synced or (kind not in _OPTIONAL and each.silence() > SILENT_SECONDS))
            ]
            metrics.SYNCED.labels(side).set(0 if late else 1)
            missing += [f"{side} {kind}" for kind in late]
        return missing

    def serves(self, kind: str) -> bool:
        """Whether both sides serve a mirrored kind; of one that is not served nothing can be said, not even that it is gone."""
        return _serves(self.virtual[kind]) and _serves(self.host[kind])

    def unserved(self, kind: str) -> str:
        """What the tenant is told about a kind that is offered and not served."""
        side = self.host if _serves(self.virtual[kind]) else self.virtual
        where = "this cluster's API server" if side is self.virtual else "the platform's host"
        return f"{where} does not serve {kind} of {side[kind].resource.group}/{side[kind].resource.version}"

    # -- looking up

    def host_key(self, kind: str, key: Key) -> Key:
        """The key on the host of a virtual object."""
        return Key(self.settings.work_namespace, self._static.host_name(kind, key.namespace, key.name))

    def virtual_pod(self, key: Key) -> Obj | None:
        """The virtual pod as last seen."""
        return self.virtual["Pod"].store.get(key)

    def host_pod(self, key: Key) -> Obj | None:
        """The marked host pod of a virtual key as last seen."""
        return self.host["Pod"].store.get(self.host_key("Pod", key))

    def origin(self, meta: Meta) -> Identity | None:
        """Whose mirror a host object is; None for one that only looks like ours."""
        return origin.of_host(
            {"metadata": {"name": meta.name, "labels": meta.labels, "annotations": meta.annotations}}, self._static
        )

    def work_of(self, kind: str, meta: Meta) -> Item | None:
        """The work that a host object of this kind is part of; None for one that only looks like ours."""
        who = self.origin(meta)
        if who is None:
            return None
        if (kind, who.kind) == ("Secret", tokens.KIND):
            return Item(tokens.KIND, Key(who.namespace, who.name.rpartition(".")[0]))
        if who.kind == kind or (kind, who.kind) == ("Service", nodeports.KIND):
            return Item(who.kind, Key(who.namespace, who.name))
        return None

    def namespace_ending(self, namespace: str) -> bool:
        """Whether the virtual namespace is being deleted or gone."""
        meta = self.virtual["Namespace"].store.meta(Key("", namespace))
        return meta is None or meta.deleting

    def offer_storage(self, names: frozenset[str], default: str) -> None:
        """Tell which StorageClasses claims may name, and which one those get that name none."""
        if (names, default) != (self._static.storage_classes, self._static.default_storage_class):
            self._static = replace(self._static, storage_classes=names, default_storage_class=default)
            self._view = None

    def offer_runtimes(self, aliases: Mapping[str, str]) -> None:
        """Tell which RuntimeClasses of the tenant's own mean which of the host's."""
        if aliases != self._static.runtime_aliases:
            self._static = replace(self._static, runtime_aliases=MappingProxyType(dict(aliases)))
            self._view = None

    def offer_snapshots(self, names: frozenset[str], default: str) -> None:
        """Tell which VolumeSnapshotClasses snapshots may name, and which one those get that name none."""
        if (names, default) != (self._static.snapshot_classes, self._static.default_snapshot_class):
            self._static = replace(self._static, snapshot_classes=names, default_snapshot_class=default)
            self._view = None

    def view(self) -> TenantView:
        """What translation may know now; built again only after something in it changed."""
        if self._view is None:
            self._view = self._build_view()
            self._views += 1
        return self._view

    @property
    def view_serial(self) -> int:
        """Which view that is: another number after anything in it changed."""
        self.view()
        return self._views

    def _build_view(self) -> TenantView:
        services: dict[str, list[ServiceEnv]] = {}
        for service in self.virtual["Service"].store.objects():
            env = _service_env(service)
            if env is not None:
                services.setdefault(str(service["metadata"].get("namespace", "")), []).append(env)
        spaces = self.virtual["Namespace"].store.metas()
        policies = list(self.virtual["NetworkPolicy"].store.objects())
        nodes = frozenset(key.name for key in self.host["Node"].store.keys())  # noqa: SIM118 -- a store, not a dict
        return replace(
            self._static,
            services={name: tuple(sorted(found, key=lambda each: each.name)) for name, found in services.items()},
            network_policies=networkpolicy.by_namespace(policies),
            policies_beyond=networkpolicy.beyond(policies),
            namespace_labels={meta.name: dict(meta.labels or {}) for meta in spaces},
            nodes=nodes,
            cordoned=frozenset(name for name, each in self._marks.items() if each.cordoned) & nodes,
            node_labels={name: each.labels for name, each in self._marks.items() if each.labels and name in nodes},
            node_taints={name: each.taints for name, each in self._marks.items() if each.taints and name in nodes},
        )

    # -- changes

    def _tell(self, side: str, kind: str, change: Change) -> None:
        for listener in self.listeners.get((side, kind), ()):
            listener(change)

    def _told(self, kind: str, *, referenced: bool = False) -> Listener:
        def changed(change: Change) -> None:
            if kind == "Service":
                self._view = None
            self._tell("virtual", kind, change)
            if not referenced or self._refers(kind, change.key):
                self._changed(Item(kind, change.key), change)
            if kind == "Service":
                self._changed(Item(nodeports.KIND, change.key), change)

        return changed

    def _changed(self, item: Item, change: Change) -> None:
        self.news(item)
        self._queue.add(item, _lane(change))

    def _plain(self, kind: str) -> Listener:
        return lambda change: self._tell("host", kind, change)

    def _mirror_changed(self, kind: str) -> Listener:
        def changed(change: Change) -> None:
            self._tell("host", kind, change)
            item = self.work_of(kind, change.meta)
            if item is not None:
                self._changed(item, change)

        return changed

    def _namespace_changed(self, change: Change) -> None:
        self._view = None
        self._tell("virtual", "Namespace", change)
        if change.kind == "modified":
            self._pods_of(change.key.name)

    def _policy_changed(self, change: Change) -> None:
        """The pods that a policy selects carry a label on the host, and what it leaves of the room is for other policies."""
        waiting = self._view.policies_beyond if self._view is not None else frozenset()
        self._view = None
        for namespace, name in waiting:
            self._queue.add(Item("NetworkPolicy", Key(namespace, name)), Lane.BACKFILL)
        self._told("NetworkPolicy")(change)
        self._pods_of(change.key.namespace)

    def _pods_of(self, namespace: str) -> None:
        for key in self.virtual["Pod"].store.keys():  # noqa: SIM118 -- a store, not a dict
            if key.namespace == namespace:
                self._queue.add(Item("Pod", key), Lane.BACKFILL)

    def queue_unplaced(self) -> None:
        """The pods that no node was chosen for yet."""
        for key in self.virtual["Pod"].store.keys():  # noqa: SIM118 -- a store, not a dict
            pod = self.virtual_pod(key)
            if pod is not None and not (pod.get("spec") or {}).get("nodeName"):
                self._queue.add(Item("Pod", key), Lane.BACKFILL)

    def _virtual_node_changed(self, change: Change) -> None:
        node = None if change.kind == "deleted" else self.virtual["Node"].store.get(change.key)
        now = nodemarks.NO_MARKS if node is None else nodemarks.of_tenant(node)
        if now != self._marks.get(change.key.name, nodemarks.NO_MARKS):
            self._marks.pop(change.key.name, None)
            if now != nodemarks.NO_MARKS:
                self._marks[change.key.name] = now
            self._view = None
            # Who drains one node often drains more.
            self._queue.add_after(UNPLACED, _MARKS_DELAY, Lane.BACKFILL)
        self._told("Node")(change)

    def _host_node_changed(self, change: Change) -> None:
        if change.kind != "modified":
            self._view = None
        self._tell("host", "Node", change)
        self._changed(Item("Node", change.key), change)


def _optional(kind: str) -> bool:
    return kind in KINDS and KINDS[kind].optional


def _serves(informer: Informer) -> bool:
    """Whether an API server gives a kind; one that has never given it might as well not."""
    return informer.has_synced and informer.served


def _lane(change: Change) -> Lane:
    return Lane.BACKFILL if change.relist else Lane.FRESH


def _static_view(settings: Settings) -> TenantView:
    return TenantView(
        tenant=settings.tenant,
        tenant_uid=settings.tenant_uid,
        cluster_domain=settings.cluster_domain,
        dns_address=settings.dns_address,
        api_address=settings.api_address,
        api_environment=settings.api_environment,
        device_environment=settings.device_environment,
        shim_address=settings.shim_address,
        shim_port=settings.shim_port,
        service_slice=settings.service_slice,
        pod_security=settings.pod_security,
        user_namespaces=settings.user_namespaces,
        seccomp_profiles=frozenset(settings.allowed_seccomp_profiles),
        apparmor_profiles=frozenset(settings.allowed_apparmor_profiles),
        enforced_node_selector=settings.enforced_node_selector,
        enforced_tolerations=tuple(_toleration(each) for each in settings.enforced_tolerations),
        allowed_tolerations=tuple(_toleration(each) for each in settings.allowed_tolerations),
        device_classes=frozenset(settings.allowed_device_classes),
        ingress_classes=frozenset(settings.allowed_ingress_classes),
        ingress_domains=settings.ingress_domains,
        pod_groups=settings.pod_groups,
        storage_listed=bool(settings.allowed_storage_classes),
        offers_snapshots=bool(settings.allowed_snapshot_classes),
        runtime_class=settings.runtime_class_name or "",
        allowed_runtime_classes=frozenset(settings.allowed_runtime_classes),
        priority_class=settings.priority_class_name or "",
        allowed_priority_classes=frozenset(settings.allowed_priority_classes),
        gpu_resources=frozenset(settings.gpu_resources),
        allowed_resources=frozenset(settings.extended_resources),
        most_per_pod=settings.most_per_pod,
        most_limit_request_ratio=settings.most_limit_request_ratio,
        most_per_claim=settings.most_per_claim,
        default_requests=settings.container_defaults.requests,
        default_limits=settings.container_defaults.limits,
        max_token_seconds=settings.token_seconds,
    )


def _toleration(plain: dict[str, object]) -> Toleration:
    seconds = plain.get("tolerationSeconds")
    return Toleration(
        key=str(plain.get("key", "")),
        operator=str(plain.get("operator", "Equal")),
        value=str(plain.get("value", "")),
        effect=str(plain.get("effect", "")),
        toleration_seconds=seconds if isinstance(seconds, int) else None,
    )


def address_of(service: Obj) -> str:
    """The ClusterIP of a Service as one side has it; empty where it has none."""
    spec = service.get("spec")
    address = spec.get("clusterIP") if isinstance(spec, dict) else None
    return address if isinstance(address, str) and address != "None" else ""


def _service_env(service: Obj) -> ServiceEnv | None:
    spec, address = service.get("spec"), address_of(service)
    if not isinstance(spec, dict) or not address:
        return None
    ports = tuple(
        ServicePort(str(port.get("name") or ""), int(port["port"]), str(port.get("protocol") or "TCP"))
        for port in spec.get("ports") or ()
        if isinstance(port, dict) and isinstance(port.get("port"), int)
    )
    return ServiceEnv(str(service["metadata"].get("name", "")), address, ports)
