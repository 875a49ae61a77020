"""Which other objects an object needs on the host: what pods refer to, their groups, and the certificates of Ingresses.

Only what is referenced is mirrored, so this decides what leaves a plane. It is lenient where translation is strict: it takes
what it can read and never raises, because the runtime also asks about objects that turn out to be refused.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api.objects import Obj
from bulkhead.api.untrusted import mapping, mappings, text
from syncer.translate import podgroupapi

CONFIG_MAP: Final = "ConfigMap"
SECRET: Final = "Secret"  # noqa: S105  # a kind, not a secret
CLAIM: Final = "PersistentVolumeClaim"
POD_GROUP: Final = "PodGroup"
_SNAPSHOT: Final = "VolumeSnapshot"

_CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_MOST: Final = 5000


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """One object that is needed, whether or not a pod starts without it."""

    kind: str
    namespace: str
    name: str


def none(_virtual: Obj) -> frozenset[Reference]:
    """For kinds that refer to nothing."""
    return frozenset()


def of_pod(virtual: Obj) -> frozenset[Reference]:
    """What a pod refers to."""
    namespace = text(mapping(virtual.get("metadata")).get("namespace"))
    pod = text(mapping(virtual.get("metadata")).get("name"))
    spec = mapping(virtual.get("spec"))
    named = (*_of_group(virtual), *_of_volumes(spec, pod), *_of_containers(spec), *_of_pull_secrets(spec))
    wanted = list(dict.fromkeys((kind, name) for kind, name in named if name))[:_MOST]
    return frozenset(Reference(kind, namespace, name) for kind, name in wanted)


def of_ingress(virtual: Obj) -> frozenset[Reference]:
    """The Secrets with the certificates of an Ingress."""
    namespace = text(mapping(virtual.get("metadata")).get("namespace"))
    tls = mappings(mapping(virtual.get("spec")).get("tls"), _MOST)
    names = {text(entry.get("secretName")) for entry in tls}
    return frozenset(Reference(SECRET, namespace, name) for name in names if name)


def named_in_texts(virtual: Obj) -> frozenset[Reference]:
    """What an object names and the host's texts about it may name by its host name."""
    kind, namespace = virtual.get("kind"), text(mapping(virtual.get("metadata")).get("namespace"))
    spec = mapping(virtual.get("spec"))
    found: list[tuple[str, Any]] = []
    if kind == "Pod":
        return of_pod(virtual)
    if kind == _SNAPSHOT:
        found = [(CLAIM, mapping(spec.get("source")).get("persistentVolumeClaimName"))]
    elif kind == CLAIM:
        sources = (mapping(spec.get(field)) for field in ("dataSource", "dataSourceRef"))
        found = [(source["kind"], source.get("name")) for source in sources if source.get("kind") in (CLAIM, _SNAPSHOT)]
    return frozenset(Reference(kind, namespace, text(name)) for kind, name in found if text(name))


_Found = tuple[str, str]


def _of_group(virtual: Obj) -> Iterator[_Found]:
    yield POD_GROUP, podgroupapi.named(virtual)


def _of_pull_secrets(spec: Mapping[str, Any]) -> Iterator[_Found]:
    for entry in mappings(spec.get("imagePullSecrets"), _MOST):
        yield SECRET, text(entry.get("name"))


def _of_volumes(spec: Mapping[str, Any], pod: str) -> Iterator[_Found]:
    for volume in mappings(spec.get("volumes"), _MOST):
        if "configMap" in volume:
            yield _named(CONFIG_MAP, volume["configMap"])
        if "secret" in volume:
            yield _named(SECRET, volume["secret"], "secretName")
        if "persistentVolumeClaim" in volume:
            yield CLAIM, text(mapping(volume["persistentVolumeClaim"]).get("claimName"))
        if mapping(volume.get("ephemeral")):
            yield CLAIM, f"{pod}-{text(volume.get('name'))}"
        for source in mappings(mapping(volume.get("projected")).get("sources"), _MOST):
            if "configMap" in source:
                yield _named(CONFIG_MAP, source["configMap"])
            if "secret" in source:
                yield _named(SECRET, source["secret"])


def _of_containers(spec: Mapping[str, Any]) -> Iterator[_Found]:
    for list_name in _CONTAINER_LISTS:
        for container in mappings(spec.get(list_name), _MOST):
            for entry in mappings(container.get("envFrom"), _MOST):
                if "configMapRef" in entry:
                    yield _named(CONFIG_MAP, entry["configMapRef"])
                if "secretRef" in entry:
                    yield _named(SECRET, entry["secretRef"])
            for entry in mappings(container.get("env"), _MOST):
                source = mapping(entry.get("valueFrom"))
                if "configMapKeyRef" in source:
                    yield _named(CONFIG_MAP, source["configMapKeyRef"])
                if "secretKeyRef" in source:
                    yield _named(SECRET, source["secretKeyRef"])


def _named(kind: str, source: Any, key: str = "name") -> _Found:
    return kind, text(mapping(source).get(key))
