"""Classes of the host as the tenant sees them: which ones are offered, and nothing of how the host makes them work.

They are copied into the plane because its API server asks for them: it refuses a pod whose PriorityClass or RuntimeClass does
not exist, and gives claims the default StorageClass. A tenant's own classes of other names are left alone; a RuntimeClass of
its own stands for an offered one that has its handler.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from bulkhead.api.storageclass import DEFAULT as DEFAULT_STORAGE_CLASS
from bulkhead.api.storageclass import is_default
from bulkhead.api.untrusted import mapping
from syncer.translate import mergepatch

DEFAULT_SNAPSHOT_CLASS: Final = "snapshot.storage.kubernetes.io/is-default-class"
INGRESS_CONTROLLER: Final = "bulkhead.dev/host"
SNAPSHOT_CLASS: Final = "VolumeSnapshotClass"
EVERY: Final = "*"
# What a PriorityClass of a tenant may at most be worth; beyond it the API server reserves names and values.
_HIGHEST_PRIORITY: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Offer:
    """One kind of class: how it is shown, and the fields whose change means that it is recreated."""

    kind: str
    api_version: str
    shown: Callable[[Obj], Obj]
    fields: tuple[str, ...]


def offered_storage(hosts: Iterable[Obj], allowed: frozenset[str]) -> list[Obj]:
    """The StorageClasses that are allowed; without a list, the host's default one. An only one is the tenant's default."""
    found = _named(hosts, allowed) if allowed else [host for host in hosts if is_default(host)]
    if len(found) != 1 or is_default(found[0]):
        return found
    meta = mapping(found[0].get("metadata"))
    annotations = {**mapping(meta.get("annotations")), DEFAULT_STORAGE_CLASS: "true"}
    return [{**found[0], "metadata": {**meta, "annotations": annotations}}]


def default_storage(wanted: Iterable[Obj]) -> str:
    """The name of the class for claims that name none, of those that are offered: the newest default, as in Kubernetes."""
    defaults = [candidate for candidate in wanted if is_default(candidate)]
    defaults.sort(key=_name)
    defaults.sort(key=lambda default: str(mapping(default.get("metadata")).get("creationTimestamp") or ""), reverse=True)
    return _name(defaults[0]) if defaults else ""


def offered(hosts: Iterable[Obj], allowed: frozenset[str]) -> list[Obj]:
    """The classes of other kinds that are allowed; without a list none."""
    return [candidate for candidate in _named(hosts, allowed) if not _name(candidate).startswith("system-")]


def storage_class(host: Obj) -> Obj:
    """A StorageClass without the parameters of the host's storage."""
    found = _shown(host, "storage.k8s.io/v1", "StorageClass")
    if is_default(host):
        found["metadata"]["annotations"] = {DEFAULT_STORAGE_CLASS: "true"}
    found["provisioner"] = str(host.get("provisioner") or "")
    found["reclaimPolicy"] = "Delete"
    found["volumeBindingMode"] = str(host.get("volumeBindingMode") or "Immediate")
    found["allowVolumeExpansion"] = host.get("allowVolumeExpansion") is True
    return found


def priority_class(host: Obj) -> Obj:
    """A PriorityClass; never the plane's default, which is the platform's business."""
    value = host.get("value")
    found = _shown(host, "scheduling.k8s.io/v1", "PriorityClass")
    found["value"] = min(value, _HIGHEST_PRIORITY) if isinstance(value, int) else 0
    found["globalDefault"] = False
    found["preemptionPolicy"] = str(host.get("preemptionPolicy") or "PreemptLowerPriority")
    return found


def runtime_class(host: Obj) -> Obj:
    """A RuntimeClass by name; where it runs and what it costs is the host's business."""
    found = _shown(host, "node.k8s.io/v1", "RuntimeClass")
    found["handler"] = str(host.get("handler") or _name(host))
    return found


def runtime_aliases(hosts: Iterable[Obj], theirs: Iterable[Obj]) -> dict[str, str]:
    """The tenant's own RuntimeClasses that mean what an offered one means, because they name the same handler.

    Charts bring such classes along. `hosts` are the offered ones; of several with one handler the first by name counts.
    """
    by_handler = {str(host.get("handler") or ""): _name(host) for host in sorted(hosts, key=_name, reverse=True)}
    own = ((_name(written), str(written.get("handler") or "")) for written in theirs if not marks.is_platforms(written))
    return {name: by_handler[handler] for name, handler in sorted(own) if handler in by_handler}


def device_class(host: Obj) -> Obj:
    """A DeviceClass by name; which devices it means is the host's business."""
    return _shown(host, "resource.k8s.io/v1", "DeviceClass") | {"spec": {}}


def ingress_class(host: Obj) -> Obj:
    """An IngressClass by name; a controller that the tenant itself runs must not take it for its own."""
    return _shown(host, "networking.k8s.io/v1", "IngressClass") | {"spec": {"controller": INGRESS_CONTROLLER}}


def snapshot_class(host: Obj) -> Obj:
    """A VolumeSnapshotClass without the parameters of the host's storage; what becomes of the data is the host's business."""
    found = _shown(host, "snapshot.storage.k8s.io/v1", SNAPSHOT_CLASS)
    if is_default_for_snapshots(host):
        found["metadata"]["annotations"] = {DEFAULT_SNAPSHOT_CLASS: "true"}
    found["driver"] = str(host.get("driver") or "")
    found["deletionPolicy"] = "Delete"
    return found


def is_default_for_snapshots(host: Obj) -> bool:
    """Whether snapshots without a class get this one."""
    return mapping(mapping(host.get("metadata")).get("annotations")).get(DEFAULT_SNAPSHOT_CLASS) == "true"


def default_snapshot_class(offered: Iterable[Obj]) -> str:
    """The one class for snapshots that name none; empty where several say so, or none does."""
    found = [_name(candidate) for candidate in offered if is_default_for_snapshots(candidate)]
    return found[0] if len(found) == 1 else ""


OFFERS: Final[Mapping[str, Offer]] = MappingProxyType(
    {
        "StorageClass": Offer(
            "StorageClass",
            "storage.k8s.io/v1",
            storage_class,
            ("provisioner", "reclaimPolicy", "volumeBindingMode"),
        ),
        "PriorityClass": Offer(
            "PriorityClass", "scheduling.k8s.io/v1", priority_class, ("value", "preemptionPolicy")
        ),
        "RuntimeClass": Offer("RuntimeClass", "node.k8s.io/v1", runtime_class, ("handler",)),
        "DeviceClass": Offer("DeviceClass", "resource.k8s.io/v1", device_class, ()),
        "IngressClass": Offer("IngressClass", "networking.k8s.io/v1", ingress_class, ("spec",)),
        SNAPSHOT_CLASS: Offer(SNAPSHOT_CLASS, "snapshot.storage.k8s.io/v1", snapshot_class, ()),
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """What to do with one class of the plane: `create`, `patch`, `replace` (delete and create) or `delete`."""

    verb: str
    name: str
    body: Obj


def steps(offer: Offer, wanted: Iterable[Obj], there: Iterable[Obj]) -> list[Step]:
    """What brings the plane's classes of one kind to what is offered; the tenant's own are never touched."""
    held = {_name(copy): copy for copy in there}
    desired = {_name(original): offer.shown(original) for original in wanted}
    found: list[Step] = []
    for name, body in sorted(desired.items()):
        old = held.get(name)
        if old is None:
            found.append(Step("create", name, body))
        elif not marks.is_platforms(old):
            continue
        elif any(old.get(field) != body.get(field) for field in offer.fields):
            found.append(Step("replace", name, body))
        elif change := _difference(body, old):
            found.append(Step("patch", name, change))
    found += [
        Step("delete", name, old) for name, old in sorted(held.items()) if name not in desired and marks.is_platforms(old)
    ]
    return found


def _difference(body: Obj, old: Obj) -> Obj:
    ours = {key: value for key, value in body.items() if key not in ("apiVersion", "kind", "metadata")}
    change = mergepatch.between({key: old[key] for key in ours if key in old}, ours)
    change |= {
        key: None for key in ("parameters", "mountOptions", "allowedTopologies", "scheduling", "overhead") if old.get(key)
    }
    want, have = mapping(body["metadata"].get("annotations")), mapping(mapping(old.get("metadata")).get("annotations"))
    defaults = (DEFAULT_STORAGE_CLASS, DEFAULT_SNAPSHOT_CLASS)
    annotations = {key: want.get(key) for key in defaults if want.get(key) != have.get(key)}
    if annotations:
        change["metadata"] = {"annotations": annotations}
    return change


def _shown(host: Obj, api_version: str, kind: str) -> Obj:
    meta: Obj = {"name": _name(host), "labels": {marks.PLATFORM: "true"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta}


def _named(hosts: Iterable[Obj], allowed: frozenset[str]) -> list[Obj]:
    return [host for host in hosts if _name(host) in allowed or EVERY in allowed]


def _name(obj: Obj) -> str:
    return str(mapping(obj.get("metadata")).get("name") or "")
