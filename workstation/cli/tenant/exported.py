"""Which objects of a plane its tenant owns, and how each is written so that another cluster takes it. Pure.

    kinds that the plane serves ──> those that can be made again, in the order in which they are applied
    object ──> its own, and no controller's, syncer's or cluster's ──> without what the server added

Everything here comes from a plane that may be hostile: names that become names of files are checked, and nothing is trusted to
have the right type.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import labels
from bulkhead.api.claimnotes import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from bulkhead.api.untrusted import mapping, mappings, sequence, text
from bulkhead.kube.objects import Resource

MOST_KINDS: Final = 2000
# Applied in this order: what others need comes first.
_FIRST: Final = (
    "namespaces",
    "customresourcedefinitions",
    "priorityclasses",
    "serviceaccounts",
    "clusterroles",
    "roles",
    "clusterrolebindings",
    "rolebindings",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services",
)
# Of Kubernetes' own groups: what is of the cluster, of its controllers, or of one moment. A tenant's own kind may be called so.
_NOT_OWNED: Final = frozenset(
    {
        "apiservices", "bindings", "certificatesigningrequests", "componentstatuses", "controllerrevisions", "csidrivers",
        "csinodes", "csistoragecapacities", "deviceclasses", "endpoints", "endpointslices", "events", "flowschemas",
        "ingressclasses", "ipaddresses", "leases", "leasecandidates", "nodes", "persistentvolumes", "podmetrics", "nodemetrics",
        "prioritylevelconfigurations", "resourceslices", "runtimeclasses", "servicecidrs", "storageclasses",
        "volumeattachments", "volumeattributesclasses", "volumesnapshotcontents", "volumesnapshotclasses",
    }
)  # fmt: skip
_NAMESPACES: Final = frozenset({"kube-system", "kube-public", "kube-node-lease"})
_PLURAL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_GROUP: Final = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?")
# Of a custom kind it may be any name: Azure's operator has v1api20200601.
_VERSION: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_BUILT_IN: Final = frozenset({"", "apps", "autoscaling", "batch", "policy"})
_ADDED: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "ownerReferences")
_NOTES: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)
_JOB_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind to export."""

    resource: Resource

    @property
    def name(self) -> str:
        """`deployments.apps`, as kubectl calls it."""
        return f"{self.resource.plural}.{self.resource.group}" if self.resource.group else self.resource.plural


# What every plane or namespace has of a kind without its tenant's doing.
_GIVEN: Final[Mapping[str, Callable[[Mapping[str, Any], str, str], bool]]] = {
    "namespaces": lambda _obj, _namespace, name: name in _NAMESPACES or name == "default",
    "configmaps": lambda _obj, _namespace, name: name == "kube-root-ca.crt",
    "serviceaccounts": lambda obj, _namespace, name: name == "default" and not obj.get("imagePullSecrets"),
    "services": lambda _obj, namespace, name: (namespace, name) == ("default", "kubernetes"),
    "secrets": lambda obj, _namespace, _name: obj.get("type") == "kubernetes.io/service-account-token",
    "clusterroles": lambda _obj, _namespace, name: name.startswith(("system:", "bulkhead:")),
    "clusterrolebindings": lambda _obj, _namespace, name: name.startswith(("system:", "bulkhead:")),
    "priorityclasses": lambda _obj, _namespace, name: name.startswith("system-"),
}


def documents_of(apis: Any) -> list[tuple[str, str]]:
    """Group and version of each discovery document that `/apis` names, of each group the preferred version first.

    Not each version of a group serves all its kinds.
    """
    found = []
    for group in mappings(mapping(apis).get("groups"), MOST_KINDS):
        name, preferred = text(group.get("name")), text(mapping(group.get("preferredVersion")).get("version"))
        listed = (text(item.get("version")) for item in mappings(group.get("versions"), MOST_KINDS))
        versions = dict.fromkeys((preferred, *listed))
        found += [(name, version) for version in versions if name and _GROUP.fullmatch(name) and _VERSION.fullmatch(version)]
    return found


def served_elsewhere(services: Iterable[Mapping[str, Any]]) -> set[str]:
    """The APIServices, such as `v1beta1.metrics.k8s.io`, of which another server than the plane's own has the objects."""
    remote = (service for service in services if mapping(service.get("spec")).get("service"))
    return {text(mapping(service.get("metadata")).get("name")) for service in remote}


def kinds_of(group: str, version: str, document: Any, *, secrets: bool) -> list[Kind]:
    """The kinds of one group and version that are exported, from its discovery document."""
    found = []
    if not _GROUP.fullmatch(group) or not _VERSION.fullmatch(version):
        return []
    for listed in mappings(mapping(document).get("resources"), MOST_KINDS):
        plural, kind = text(listed.get("name")), text(listed.get("kind"))
        verbs = {text(verb) for verb in sequence(listed.get("verbs"))}
        if not _PLURAL.fullmatch(plural) or not kind.isalnum() or not {"list", "create"} <= verbs:
            continue
        if (_is_kubernetes(group) and plural in _NOT_OWNED) or (plural == "secrets" and not group and not secrets):
            continue
        found.append(Kind(Resource(group, version, plural, kind, listed.get("namespaced") is True)))
    return found


def in_order(found: Iterable[Kind]) -> list[Kind]:
    """The kinds in the order in which they are applied."""

    def rank(kind: Kind) -> tuple[int, int, str]:
        resource = kind.resource
        ours = _is_kubernetes(resource.group)
        early = _FIRST.index(resource.plural) if ours and resource.plural in _FIRST else len(_FIRST)
        # Custom objects may need any of the others; bare pods run at once, and need all.
        late = 2 if resource.plural == "pods" and not resource.group else 0 if ours else 1
        return early, late, kind.name

    return sorted(found, key=rank)


def owned(resource: Resource, obj: Mapping[str, Any]) -> bool:
    """Whether the tenant made an object, as far as it says."""
    meta = mapping(obj.get("metadata"))
    name, namespace, marks = text(meta.get("name")), text(meta.get("namespace")), mapping(meta.get("labels"))
    if not name or marks.get(labels.PLATFORM) == "true" or labels.SHARED in marks or labels.SHARED_VOLUME in marks:
        return False
    if any(owner.get("controller") is True for owner in mappings(meta.get("ownerReferences"), 32)):
        return False
    if meta.get("deletionTimestamp") or namespace in _NAMESPACES or marks.get("kubernetes.io/bootstrapping"):
        return False
    given = _GIVEN.get(resource.plural) if _is_kubernetes(resource.group) else None
    return given is None or not given(obj, namespace, name)


def clean(resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what a server or a controller added, so that another cluster takes it."""
    meta = {key: value for key, value in mapping(obj.get("metadata")).items() if key not in _ADDED and key != "finalizers"}
    notes = {key: value for key, value in mapping(meta.get("annotations")).items() if key not in _NOTES}
    meta.pop("annotations", None)
    if notes:
        meta["annotations"] = notes
    body = {key: value for key, value in obj.items() if key not in {"metadata", "status", "apiVersion", "kind"}}
    if "spec" in body:
        body["spec"] = _spec(resource, mapping(body["spec"]))
    if resource.plural == "serviceaccounts" and not resource.group:
        body.pop("secrets", None)
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **body}


def _is_kubernetes(group: str) -> bool:
    return group in _BUILT_IN or group.endswith(".k8s.io")


def _spec(resource: Resource, spec: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(spec)
    match (resource.group, resource.plural):
        case ("", "services"):
            if made.get("clusterIP") != "None":
                made = {key: value for key, value in made.items() if key not in {"clusterIP", "clusterIPs"}}
            made.pop("healthCheckNodePort", None)
            made["ports"] = [
                {key: value for key, value in port.items() if key != "nodePort"} for port in mappings(made.get("ports"), 4096)
            ]
        case ("", "persistentvolumeclaims"):
            made.pop("volumeName", None)
        case ("", "namespaces"):
            made.pop("finalizers", None)
        case ("batch", "jobs"):
            if made.get("manualSelector") is not True:
                made.pop("selector", None)
                template = mapping(made.get("template"))
                meta = mapping(template.get("metadata"))
                rest = {key: value for key, value in mapping(meta.get("labels")).items() if key not in _JOB_LABELS}
                made["template"] = {**template, "metadata": {**meta, "labels": rest}}
        case ("", "pods"):
            made = _pod(made)
    return made


def _pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Without its node, and the volume of its token, which another cluster makes again."""
    made = {key: value for key, value in spec.items() if key not in {"nodeName", "serviceAccount"}}
    tokens = {text(volume.get("name")) for volume in mappings(spec.get("volumes"), 1024)}
    tokens = {name for name in tokens if name.startswith("kube-api-access-")}
    made["volumes"] = [volume for volume in mappings(spec.get("volumes"), 1024) if text(volume.get("name")) not in tokens]
    for field in ("containers", "initContainers"):
        if field in made:
            made[field] = [
                {
                    **container,
                    "volumeMounts": [
                        mount
                        for mount in mappings(container.get("volumeMounts"), 1024)
                        if text(mount.get("name")) not in tokens
                    ],
                }
                for container in mappings(made[field], 1024)
            ]
    return made
