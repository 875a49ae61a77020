"""Volumes of a pod on the host: the kinds that carry a tenant's own data, with every reference renamed; all others refused.

A generic ephemeral volume becomes a reference to the claim that the plane's controller manager makes for it, so that there is
one claim and not two. Token sources become secret sources, see `tokens.py`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from bulkhead.api import names
from bulkhead.api.objects import Obj
from syncer.translate import alternatives, metadata, schema, tokens
from syncer.translate.metadata import Identity
from syncer.translate.podspec import downward
from syncer.translate.podspec.environment import renamed
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.references import CLAIM, CONFIG_MAP, SECRET
from syncer.translate.schema import FLAG, NAME, QUANTITY, ListOf, Number, OneOf, Refused, Struct, Text, Translated
from syncer.translate.view import TenantView

_MODE: Final = Number(0, 0o777)
_RELATIVE: Final = Text(4096)
_ITEMS: Final = ListOf(Struct({"key": Text(253), "path": _RELATIVE, "mode": _MODE}))
_HOST_STORAGE: Final = Refused("volumes of this kind reach storage of the host; use a PersistentVolumeClaim")

# Every volume source of Kubernetes 1.36.
VOLUME: Final = Struct({
    "name": Text(63),
    "configMap": Translated("_config_map"),
    "secret": Translated("_secret"),
    "downwardAPI": Translated("_downward"),
    "projected": Translated("_projected"),
    "persistentVolumeClaim": Translated("_claim"),
    "ephemeral": Translated("_ephemeral"),
    "emptyDir": Struct({"medium": OneOf(("", "Memory"), Reason.NOT_ALLOWED), "sizeLimit": QUANTITY}),
    "hostPath": Refused(alternatives.HOST_PATH, Reason.POD_SECURITY),
    "gitRepo": Refused("removed from Kubernetes; clone in an init container"),
    "flexVolume": Refused("flexVolume runs drivers on the host"),
    "csi": Refused("inline CSI volumes are not offered; use a PersistentVolumeClaim"),
    # Pulled like a container's image, with the pod's renamed pull secrets, and mounted read-only.
    "image": Struct({"reference": Text(4096), "pullPolicy": OneOf(("", "Always", "IfNotPresent", "Never"))}),
    **dict.fromkeys(
        (
            "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "fc", "flocker", "gcePersistentDisk",
            "glusterfs", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos",
            "vsphereVolume",
        ),
        _HOST_STORAGE,
    ),
})  # fmt: skip

_MAP_FIELDS: Final[dict[str, schema.Rule]] = {"items": _ITEMS, "optional": FLAG}
_CONFIG_MAP: Final = Struct({"name": NAME, "defaultMode": _MODE, **_MAP_FIELDS})
_SECRET: Final = Struct({"secretName": NAME, "defaultMode": _MODE, **_MAP_FIELDS})
_PROJECTED_MAP: Final = Struct({"name": NAME, **_MAP_FIELDS})
_CLAIM: Final = Struct({"claimName": NAME, "readOnly": FLAG})
_FILE: Final = Struct({
    "path": _RELATIVE, "mode": _MODE, "fieldRef": Translated("downward"), "resourceFieldRef": downward.RESOURCE_REF,
})  # fmt: skip
_DOWNWARD: Final = Struct({"items": ListOf(_FILE), "defaultMode": _MODE})
_PROJECTED: Final = Struct({"sources": Translated("_source"), "defaultMode": _MODE})
PROJECTION: Final = Struct(
    {
        "configMap": Translated("_source"),
        "secret": Translated("_source"),
        "downwardAPI": Translated("_source"),
        "serviceAccountToken": Translated("_source"),
        "clusterTrustBundle": Refused("trust bundles of the host are not offered", Reason.NOT_SUPPORTED),
        "podCertificate": Refused("certificates by signers of the host are not offered", Reason.NOT_SUPPORTED),
    }
)


def volumes(virtual: Obj, identity: Identity, view: TenantView) -> list[Obj]:
    """The pod's volumes on the host."""
    spec = schema.mapping(virtual.get("spec"), "spec")
    if view.judges:
        tokens.check(virtual)
    tokens_in = tokens.secret_name(virtual, view)
    return [_volume(volume, at, identity, view, tokens_in) for at, volume in schema.items(spec.get("volumes"), "spec.volumes")]


def _volume(volume: Mapping[str, Any], path: str, identity: Identity, view: TenantView, tokens_in: str) -> Obj:
    translated = schema.struct(volume, VOLUME, path)
    if not translated.get("name"):
        raise Untranslatable(Reason.MALFORMED, "a volume needs a name", f"{path}.name")
    for key, translate in _SOURCES.items():
        if volume.get(key) is not None:
            translated |= translate(volume[key], f"{path}.{key}", translated["name"], identity, view)
    if volume.get("projected") is not None:
        translated["projected"] = _projected(volume["projected"], f"{path}.projected", identity, view, tokens_in)
    if len(translated) == 1:
        translated["emptyDir"] = {}  # what an API server makes of a volume without a source
    return translated


def _config_map(value: Any, path: str, _volume: str, identity: Identity, view: TenantView) -> Obj:
    source = schema.struct(value, _CONFIG_MAP, path)
    return {"configMap": renamed(source, CONFIG_MAP, path, identity.namespace, view)}


def _secret(value: Any, path: str, _volume: str, identity: Identity, view: TenantView) -> Obj:
    source = schema.struct(value, _SECRET, path)
    name = metadata.object_name(source.get("secretName"), f"{path}.secretName")
    return {"secret": source | {"secretName": view.host_name(SECRET, identity.namespace, name)}}


def _claim(value: Any, path: str, _volume: str, identity: Identity, view: TenantView) -> Obj:
    source = schema.struct(value, _CLAIM, path)
    name = metadata.object_name(source.get("claimName"), f"{path}.claimName")
    if names.is_shared_claim(name):
        # The controller's, and called so on the host; it says by its name whether it can be written to.
        read_only = {"readOnly": True} if name.startswith(names.READ_ONLY_CLAIM) else {}
        return {"persistentVolumeClaim": source | {"claimName": name} | read_only}
    return {"persistentVolumeClaim": source | {"claimName": view.host_name(CLAIM, identity.namespace, name)}}


def _ephemeral(value: Any, path: str, volume: str, identity: Identity, view: TenantView) -> Obj:
    schema.mapping(value, path)  # the template itself is for the plane's controller manager
    name = metadata.object_name(f"{identity.name}-{volume}", path)
    return {"persistentVolumeClaim": {"claimName": view.host_name(CLAIM, identity.namespace, name)}}


def _downward(value: Any, path: str, _volume: str, _who: Identity, _view: TenantView) -> Obj:
    translated = schema.struct(value, _DOWNWARD, path)
    for file, (at, original) in zip(
        translated.get("items", []), schema.items(schema.mapping(value, path).get("items"), f"{path}.items"), strict=True
    ):
        if original.get("fieldRef") is not None:
            file["fieldRef"] = downward.field_ref(original["fieldRef"], f"{at}.fieldRef")
    return {"downwardAPI": translated}


def _projected(value: Any, path: str, identity: Identity, view: TenantView, tokens_in: str) -> Obj:
    translated = schema.struct(value, _PROJECTED, path)
    sources = schema.items(schema.mapping(value, path).get("sources"), f"{path}.sources")
    translated["sources"] = [_source(source, at, identity, view, tokens_in) for at, source in sources]
    return translated


def _source(source: Mapping[str, Any], path: str, identity: Identity, view: TenantView, tokens_in: str) -> Obj:
    schema.struct(source, PROJECTION, path)
    for key, kind in (("configMap", CONFIG_MAP), ("secret", SECRET)):
        if source.get(key) is not None:
            plain = schema.struct(source[key], _PROJECTED_MAP, f"{path}.{key}")
            return {key: renamed(plain, kind, f"{path}.{key}", identity.namespace, view)}
    if source.get("downwardAPI") is not None:
        return _downward(source["downwardAPI"], f"{path}.downwardAPI", "", identity, view)
    if source.get("serviceAccountToken") is not None:
        token = tokens.need(source["serviceAccountToken"], f"{path}.serviceAccountToken", view.max_token_seconds)
        return {"secret": {"name": tokens_in, "items": [{"key": token.key, "path": token.path}]}}
    raise Untranslatable(Reason.MALFORMED, "a projection needs a source", path)


_SOURCES: Final[Mapping[str, Callable[[Any, str, str, Identity, TenantView], Obj]]] = {
    "configMap": _config_map,
    "secret": _secret,
    "persistentVolumeClaim": _claim,
    "ephemeral": _ephemeral,
    "downwardAPI": _downward,
}
