"""Environment of a container on the host: the platform's variables first, then the tenant's own, device variables policed.

The host's kubelet puts the host's KUBERNETES_* into every container that does not set them, so they are always set here: by an
`envFrom` before the tenant's own, of a ConfigMap that the controller keeps, because eight variables in each container are an
eighth of a host pod. What stands in `envFrom` first may be overridden by all else, as a kubelet's own variables may, and
`$(VAR)` sees it. Variables of Services come first, for `$(VAR)` too, and are left out where the tenant sets them.

Device variables. Container runtimes grant devices by environment (NVIDIA_VISIBLE_DEVICES=all needs no request), and pod
variables beat those of the device plugin. So what closes them (`bulkhead.api.devices`) is the last `envFrom` of each container,
which beats its image and its other `envFrom`; a container that asks for a device of one vendor gets what closes the others. The
tenant's own settings are removed, a prefixed envFrom that could spell such a name is refused, and the mirrors of ConfigMaps and
Secrets never carry such a key (`without_device_keys`).
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api import devices, serviceenv
from bulkhead.api.devices import CAPABILITIES, DRIVER_CAPABILITIES, Vendor
from bulkhead.api.objects import Obj
from syncer.translate import metadata, schema
from syncer.translate.podspec import downward
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.references import CONFIG_MAP, SECRET
from syncer.translate.view import TenantView

_CAPABILITIES: Final = frozenset(CAPABILITIES)
_VARIABLE: Final = schema.Text(512)

_KEY_REF: Final = schema.Struct({"name": schema.NAME, "key": schema.Text(253), "optional": schema.FLAG})
_FILE_REF: Final = schema.Struct({
    "volumeName": schema.NAME, "path": schema.Text(4096), "key": schema.Text(253), "optional": schema.FLAG,
})  # fmt: skip
_ENV: Final = schema.Struct({"name": _VARIABLE, "value": schema.TEXT, "valueFrom": schema.Translated("_value_from")})
_VALUE_FROM: Final = schema.Struct(
    {
        "fieldRef": schema.Translated("downward"),
        "resourceFieldRef": downward.RESOURCE_REF,
        "configMapKeyRef": schema.Translated("_key_ref"),
        "secretKeyRef": schema.Translated("_key_ref"),
        "fileKeyRef": _FILE_REF,
    }
)
_SOURCE: Final = schema.Struct({"name": schema.NAME, "optional": schema.FLAG})
_ENV_FROM: Final = schema.Struct(
    {
        "prefix": schema.Text(512),
        "configMapRef": schema.Translated("_source"),
        "secretRef": schema.Translated("_source"),
    }
)


def injected(namespace: str, service_links: bool, view: TenantView) -> dict[str, str]:
    """The platform's variables that stand in each container, in their order: the tenant's API first, then its services.

    Those of the API are left out where a ConfigMap of the host has them, see `env_from`.
    """
    api = serviceenv.of_api(view.api_address)
    found: dict[str, str] = {} if view.api_environment else dict(sorted(api.items()))
    links = sorted(view.services.get(namespace, ()), key=lambda entry: entry.name) if service_links else ()
    services: dict[str, str] = {}
    for service in links:
        if service.name != "kubernetes" or namespace != "default":
            services = serviceenv.of_service(service) | services
    return found | {key: value for key, value in sorted(services.items()) if key not in api}


def env(
    container: Mapping[str, Any],
    path: str,
    namespace: str,
    *,
    platform: Mapping[str, str],
    vendor: Vendor | None,
    view: TenantView,
) -> list[Obj]:
    """The container's `env` on the host."""
    own = [
        translated
        for at, entry in schema.items(container.get("env"), f"{path}.env")
        if (translated := _entry(entry, at, namespace, view)) is not None
    ]
    taken = {entry["name"] for entry in own}
    first = [{"name": name, "value": value} for name, value in platform.items() if name not in taken]
    if not view.device_environment:
        closed = devices.environment(vendor)
        first += [{"name": name, "value": value} for name, value in closed.items() if name not in taken]
    return first + own


def env_from(container: Mapping[str, Any], path: str, namespace: str, vendor: Vendor | None, view: TenantView) -> list[Obj]:
    """The container's `envFrom` on the host; the last of several that have a variable counts."""
    found: list[Obj] = [{"configMapRef": {"name": view.api_environment}}] if view.api_environment else []
    for at, entry in schema.items(container.get("envFrom"), f"{path}.envFrom"):
        translated = schema.struct(entry, _ENV_FROM, at)
        prefix = translated.get("prefix", "")
        if view.judges and devices.could_hand_out_devices(prefix):
            raise Untranslatable(
                Reason.NOT_ALLOWED, f"the prefix {prefix[:64]!r} could spell a device variable; choose another", f"{at}.prefix"
            )
        for key, kind in (("configMapRef", CONFIG_MAP), ("secretRef", SECRET)):
            if entry.get(key) is not None:
                translated[key] = renamed(
                    schema.struct(entry[key], _SOURCE, f"{at}.{key}"), kind, f"{at}.{key}", namespace, view
                )
        found.append(translated)
    if view.device_environment:
        found.append({"configMapRef": {"name": devices.environment_name(view.device_environment, vendor)}})
    return found


def without_device_keys(data: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a ConfigMap or Secret that may become environment on the host."""
    return {key: value for key, value in data.items() if key != DRIVER_CAPABILITIES and not devices.hands_out_devices(key)}


def renamed(source: Obj, kind: str, path: str, namespace: str, view: TenantView) -> Obj:
    """A reference by `name` with the host's name; never the tenant's own name, whatever it is."""
    name = metadata.object_name(source.get("name"), f"{path}.name")
    return source | {"name": view.host_name(kind, namespace, name)}


def _entry(entry: Mapping[str, Any], path: str, namespace: str, view: TenantView) -> Obj | None:
    translated = schema.struct(entry, _ENV, path)
    name = translated.get("name", "")
    if not name or "=" in name or not name.isprintable():
        raise Untranslatable(Reason.MALFORMED, f"{name[:64]!r} is not a name of a variable", f"{path}.name")
    if devices.hands_out_devices(name):
        return None
    if name.strip() == DRIVER_CAPABILITIES:
        wanted = set(translated.get("value", "").split(","))
        return translated if name == DRIVER_CAPABILITIES and "valueFrom" not in entry and wanted <= _CAPABILITIES else None
    if entry.get("valueFrom") is not None:
        translated["valueFrom"] = _value_from(entry["valueFrom"], f"{path}.valueFrom", namespace, view)
    return translated


def _value_from(value: Any, path: str, namespace: str, view: TenantView) -> Obj:
    source = schema.mapping(value, path)
    translated = schema.struct(source, _VALUE_FROM, path)
    if source.get("fieldRef") is not None:
        translated["fieldRef"] = downward.field_ref(source["fieldRef"], f"{path}.fieldRef")
    for key, kind in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
        if source.get(key) is not None:
            reference = schema.struct(source[key], _KEY_REF, f"{path}.{key}")
            translated[key] = renamed(reference, kind, f"{path}.{key}", namespace, view)
    return translated
