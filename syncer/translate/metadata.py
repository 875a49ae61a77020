"""Metadata of host objects: markers that say whose they are, and an allowlist for the tenant's labels and annotations.

Flow: `identity` reads and checks who the virtual object is; `host_metadata` builds the whole metadata of its host object.

Labels. A tenant's Services, affinities and spread constraints select by labels, so every label must reach the host in a form
that selectors can follow. `host_label_key` is that form and is used for both: keys without a prefix and keys of a few known
prefixes stay as they are; every other key, our own `bulkhead.dev/*` and those that operators on the host act on among them,
becomes `tenant.bulkhead.dev/<digest>`. So a tenant can neither pose as ours nor steer a host operator, and selects as before.
Annotations. Nothing selects by them, so they are dropped unless listed in `PASSING_ANNOTATIONS`. Nothing goes up.
Finalizers, owner references, managed fields and `generateName` never reach the host.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import labels as marks
from bulkhead.api.objects import Obj
from syncer.translate import schema
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.view import TenantView

NAMESPACE_HASH: Final = "bulkhead.dev/namespace-hash"  # label: `namespace_hash` of the virtual namespace
APPLIED: Final = "bulkhead.dev/applied"  # annotation: the keys that the last translation set, for three-way comparison
WANTED: Final = "bulkhead.dev/wanted"  # annotation: a hash of the whole object as it was last wanted
REMAPPED_PREFIX: Final = "tenant.bulkhead.dev/"
NAMESPACE_LABEL_PREFIX: Final = "namespace.bulkhead.dev/"

_PASSING_PREFIXES: Final = frozenset(
    {
        "app.kubernetes.io",
        "apps.kubernetes.io",
        "batch.kubernetes.io",
        "statefulset.kubernetes.io",
        "helm.sh",
    }
)
# Keys of passing form that the host, its operators or this platform give a meaning of their own.
_RESERVED_KEYS: Final = frozenset({marks.MANAGED_BY, "aadpodidbinding", "istio-injection", "release", "control-plane"})
# API servers copy these from the node when a pod is bound, here as on the host: not carried down, and selected as they are.
SET_BY_BINDING: Final = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
PASSING_ANNOTATIONS: Final = frozenset(
    {
        "kubectl.kubernetes.io/default-container",
        "kubectl.kubernetes.io/default-logs-container",
    }
)

_MOST_LABELS: Final = 200
_MOST_NAMESPACE_LABELS: Final = 32
_ANNOTATIONS_LIMIT: Final = 256 * 1024 - 8192  # what the host's API server takes, less what admission may add
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a virtual object."""

    kind: str
    namespace: str
    name: str
    uid: str


def identity(kind: str, virtual: Obj) -> Identity:
    """The checked identity of a virtual object."""
    meta = schema.mapping(schema.mapping(virtual, "").get("metadata"), "metadata")
    namespace = schema.text(meta.get("namespace"), "metadata.namespace")
    name = schema.text(meta.get("name"), "metadata.name")
    uid = schema.text(meta.get("uid"), "metadata.uid")
    if not _DNS_LABEL.fullmatch(namespace):
        raise Untranslatable(Reason.MALFORMED, f"{namespace[:64]!r} is not a namespace", "metadata.namespace")
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        raise Untranslatable(Reason.MALFORMED, f"{name[:64]!r} is not a name", "metadata.name")
    if not _LABEL_NAME.fullmatch(uid):
        raise Untranslatable(Reason.MALFORMED, f"{uid[:64]!r} is not a UID", "metadata.uid")
    return Identity(kind, namespace, name, uid)


def object_name(value: Any, path: str) -> str:
    """The checked name of an object that is referred to."""
    name = schema.text(value, path)
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        raise Untranslatable(Reason.MALFORMED, f"{name[:64]!r} is not the name of an object", path)
    return name


def dns_label(value: str, path: str) -> str:
    """`value` if it is a DNS label."""
    if not _DNS_LABEL.fullmatch(value):
        raise Untranslatable(Reason.MALFORMED, f"{value[:64]!r} is not a DNS label", path)
    return value


def host_metadata(
    identity: Identity,
    virtual: Obj,
    view: TenantView,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Obj:
    """The complete metadata of the host object; `labels` and `annotations` are the kind's own additions."""
    meta = schema.mapping(virtual.get("metadata"), "metadata")
    own_labels = tenant_labels(meta) | dict(labels or {})
    if identity.kind == "Pod":
        own_labels = {key: value for key, value in own_labels.items() if key not in SET_BY_BINDING}
    own_annotations = _passing_annotations(meta) | dict(annotations or {})
    all_labels = own_labels | markers(identity, view)
    all_annotations = own_annotations | _origin(identity, view)
    # the markers are always wanted, so only the others can be ones to take away some day
    applied = {"labels": sorted(own_labels), "annotations": sorted(own_annotations)}
    all_annotations[APPLIED] = json.dumps(applied, separators=(",", ":"))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in all_annotations.items())
    if size > _ANNOTATIONS_LIMIT:
        raise Untranslatable(Reason.TOO_LARGE, "labels and annotations are beyond what the host can carry", "metadata")
    return {
        "name": view.host_name(identity.kind, identity.namespace, identity.name),
        "namespace": view.work_namespace,
        "labels": dict(sorted(all_labels.items())),
        "annotations": dict(sorted(all_annotations.items())),
    }


def markers(identity: Identity, view: TenantView) -> dict[str, str]:
    """The labels by which the host and the syncer know whose object this is."""
    return {
        **marks.made_for(view.tenant),
        marks.SYNCED: marks.SYNCED_BY_SYNCER,
        marks.VIRTUAL_UID: identity.uid,
        NAMESPACE_HASH: namespace_hash(identity.namespace, view),
    }


def namespace_hash(namespace: str, view: TenantView) -> str:
    """The label value that stands for a virtual namespace on the host."""
    return view.host_name("Namespace", "", namespace)


def tenant_labels(meta: Mapping[str, Any]) -> dict[str, str]:
    """The tenant's labels under the keys that they have on the host."""
    plain = schema.text_map(meta.get("labels"), "metadata.labels")
    if len(plain) > _MOST_LABELS:
        raise Untranslatable(Reason.TOO_LARGE, f"{len(plain)} labels, at most {_MOST_LABELS} are mirrored", "metadata.labels")
    return {host_label_key(key, "metadata.labels"): label_value(value, "metadata.labels") for key, value in plain.items()}


def host_label_key(key: str, path: str) -> str:
    """The key under which a tenant's label, or its part in a selector, stands on the host."""
    prefix, slash, name = key.rpartition("/")
    if not _LABEL_NAME.fullmatch(name) or (slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix))):
        raise Untranslatable(Reason.MALFORMED, f"{key[:64]!r} is not a label key", path)
    if key in SET_BY_BINDING or (key not in _RESERVED_KEYS and (not slash or prefix in _PASSING_PREFIXES)):
        return key
    return REMAPPED_PREFIX + digest(key)


def namespace_labels(namespace: str, view: TenantView) -> dict[str, str]:
    """The labels of the pod's virtual namespace, under digests: what a tenant's namespaceSelector selects by."""
    found = view.namespace_labels.get(namespace, {})
    return {
        host_namespace_key(key): value
        for key, value in sorted(found.items())[:_MOST_NAMESPACE_LABELS]
        if value == "" or _LABEL_NAME.fullmatch(value)
    }


def stands_for_tenants(key: str) -> bool:
    """Whether a key on the host may be one that `host_label_key` gave."""
    prefix, slash, _ = key.rpartition("/")
    return f"{prefix}/" == REMAPPED_PREFIX or (key not in _RESERVED_KEYS and (not slash or prefix in _PASSING_PREFIXES))


def host_namespace_key(key: str) -> str:
    """The key on host pods for a label of the tenant's namespace."""
    return NAMESPACE_LABEL_PREFIX + digest(key)


def label_value(value: str, path: str) -> str:
    """`value` if it may be a label's."""
    if value and not _LABEL_NAME.fullmatch(value):
        raise Untranslatable(Reason.MALFORMED, f"{value[:64]!r} is not a label value", path)
    return value


def digest(key: str) -> str:
    """128 bits that stand for a tenant's key."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _passing_annotations(meta: Mapping[str, Any]) -> dict[str, str]:
    plain = schema.mapping(meta.get("annotations"), "metadata.annotations")
    return {key: schema.text(plain[key], "metadata.annotations", 253) for key in sorted(PASSING_ANNOTATIONS) if plain.get(key)}


def _origin(identity: Identity, view: TenantView) -> dict[str, str]:
    return {
        marks.TENANT_UID: view.tenant_uid,
        marks.VIRTUAL_KIND: identity.kind,
        marks.VIRTUAL_NAMESPACE: identity.namespace,
        marks.VIRTUAL_NAME: identity.name,
        marks.VIRTUAL_UID: identity.uid,
    }
