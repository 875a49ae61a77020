"""What translation may know of the tenant now: the settings, what the host offers, and a snapshot of both sides' caches.

    settings ──> static view ──┐
    classes of the host ───────┼──> TenantView, built again only after something in it changed; its serial then is another
    caches, tenant's marks ────┘

It does not watch informers: code that changes the view's sources calls `discard`. Reads caches, and no server.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from bulkhead.api.objects import Obj
from bulkhead.api.serviceenv import ServiceEnv, ServicePort
from bulkhead.kube.informer import Informer
from bulkhead.kube.objects import Key
from syncer.settings import Settings
from syncer.translate.kinds import networkpolicy, nodemarks
from syncer.translate.kinds.service import address_of
from syncer.translate.podspec import users
from syncer.translate.view import TenantView, Toleration


class Views:
    """The view of one tenant as it is now."""

    def __init__(self, settings: Settings) -> None:
        # What follows from the settings and from the host's classes alone.
        self.static = static_view(settings)
        # Counts the views that there were: the same number, the same view.
        self.serial = 0
        self._built: TenantView | None = None
        # What the tenant itself wrote on virtual nodes.
        self._marks: dict[str, nodemarks.Marks] = {}
        # Host nodes whose runtime can give pods user namespaces.
        self._mapping: set[Key] = set()

    def offer_storage(self, names: frozenset[str], default: str) -> None:
        """Set which StorageClasses claims may name, and which one those get that name none."""
        self._offer(replace(self.static, storage_classes=names, default_storage_class=default))

    def offer_runtimes(self, aliases: Mapping[str, str]) -> None:
        """Set which RuntimeClasses of the tenant's own mean which of the host's."""
        self._offer(replace(self.static, runtime_aliases=MappingProxyType(dict(aliases))))

    def offer_snapshots(self, names: frozenset[str], default: str) -> None:
        """Set which VolumeSnapshotClasses snapshots may name, and which one those get that name none."""
        self._offer(replace(self.static, snapshot_classes=names, default_snapshot_class=default))

    def adopt(self, settings: Settings) -> None:
        """Use new settings; the host's offers stay as they are until its classes are read again."""
        was = self.static
        self._offer(
            replace(
                static_view(settings),
                storage_classes=was.storage_classes,
                default_storage_class=was.default_storage_class,
                runtime_aliases=was.runtime_aliases,
                snapshot_classes=was.snapshot_classes,
                default_snapshot_class=was.default_snapshot_class,
            )
        )

    def _offer(self, static: TenantView) -> None:
        if static != self.static:
            self.static = static
            self.discard()

    def mark(self, node: str, now: nodemarks.Marks) -> bool:
        """Set what the tenant wrote on a node; False when it is unchanged."""
        if now == self._marks.get(node, nodemarks.NO_MARKS):
            return False
        self._marks.pop(node, None)
        if now != nodemarks.NO_MARKS:
            self._marks[node] = now
        self.discard()
        return True

    def node_changed(self, key: Key, node: Obj | None) -> None:
        """A node of the host is there, or is another one, or is gone (None)."""
        supports = node is not None and users.supports(node)
        if supports != (key in self._mapping):
            (self._mapping.add if supports else self._mapping.discard)(key)
            self.discard()

    def discard(self) -> TenantView | None:
        """Something in the view changed; returns the view from before, if one was built since the last change."""
        before, self._built = self._built, None
        return before

    def current(self, virtual: Mapping[str, Informer], host: Mapping[str, Informer]) -> TenantView:
        """The view of these caches now."""
        if self._built is None:
            self._built = self._build(virtual, host)
            self.serial += 1
        return self._built

    def _build(self, virtual: Mapping[str, Informer], host: Mapping[str, Informer]) -> TenantView:
        services: dict[str, list[ServiceEnv]] = {}
        for service in virtual["Service"].store.objects():
            env = _service_env(service)
            if env is not None:
                services.setdefault(str(service["metadata"].get("namespace", "")), []).append(env)
        spaces = virtual["Namespace"].store.metas()
        policies = list(virtual["NetworkPolicy"].store.objects())
        nodes = frozenset(key.name for key in host["Node"].store.keys())  # noqa: SIM118 -- a store, not a dict
        return replace(
            self.static,
            services={name: tuple(sorted(found, key=lambda service: service.name)) for name, found in services.items()},
            network_policies=networkpolicy.by_namespace(policies),
            policies_beyond=networkpolicy.beyond(policies),
            namespace_labels={meta.name: dict(meta.labels or {}) for meta in spaces},
            nodes=nodes,
            nodes_support_user_namespaces=bool(nodes) and self._mapping >= {Key("", name) for name in nodes},
            cordoned=frozenset(name for name, mark in self._marks.items() if mark.cordoned) & nodes,
            node_labels={name: mark.labels for name, mark in self._marks.items() if mark.labels and name in nodes},
            node_taints={name: mark.taints for name, mark in self._marks.items() if mark.taints and name in nodes},
        )


def static_view(settings: Settings) -> TenantView:
    """The part of the view that follows only from the settings."""
    return TenantView(
        tenant=settings.tenant,
        tenant_uid=settings.tenant_uid,
        cluster_domain=settings.cluster_domain,
        dns_address=settings.dns_address,
        api_address=settings.api_address,
        api_environment=settings.api_environment,
        device_environment=settings.device_environment,
        kubelet_address=settings.kubelet_address,
        kubelet_port=settings.kubelet_port,
        public_address=settings.public_address,
        service_slice=settings.service_slice,
        pod_security=settings.pod_security,
        user_namespaces=settings.user_namespaces,
        prefers_user_namespaces=settings.prefer_user_namespaces,
        seccomp_profiles=frozenset(settings.allowed_seccomp_profiles),
        apparmor_profiles=frozenset(settings.allowed_apparmor_profiles),
        enforced_node_selector=settings.enforced_node_selector,
        enforced_tolerations=tuple(_toleration(enforced_toleration) for enforced_toleration in settings.enforced_tolerations),
        allowed_tolerations=tuple(_toleration(allowed_toleration) for allowed_toleration in settings.allowed_tolerations),
        device_classes=frozenset(settings.allowed_device_classes),
        ingress_classes=frozenset(settings.allowed_ingress_classes),
        ingress_domains=settings.ingress_domains,
        pod_groups=settings.pod_groups,
        gated_resources=frozenset(settings.gated_resources),
        gated_gangs=settings.gated_gangs,
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
        pull_secret=settings.pull_secret,
        own_images=frozenset(settings.own_images),
        max_token_seconds=settings.token_seconds,
        max_grace_seconds=settings.max_grace_seconds,
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
