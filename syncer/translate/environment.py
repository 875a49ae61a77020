"""Environment of a container on the host: the platform's variables first, then the tenant's own, device variables policed.

The host's kubelet puts the host's KUBERNETES_* into every container that does not set them, so they are always set here. Our
variables come first, so that `$(VAR)` in the tenant's values can use them, and are left out where the tenant sets them.

Device variables. Container runtimes grant devices by environment (NVIDIA_VISIBLE_DEVICES=all needs no request), and pod
variables beat those of the device plugin. So a container without a GPU request gets `void`, which also beats its image and
its envFrom; with a request, the tenant's own setting is removed, a prefixed envFrom that could spell such a name is refused,
and the mirrors of ConfigMaps and Secrets never carry such a key (`without_device_keys`).
"""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any, Final

from syncer.translate import downward, metadata, schema
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.references import CONFIG_MAP, SECRET
from syncer.translate.view import Obj, ServiceEnv, ServicePort, TenantView

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
DRIVER_CAPABILITIES: Final = "NVIDIA_DRIVER_CAPABILITIES"
# Variables by which some container runtime hands out devices, modes of them, or host libraries.
DEVICE_VARIABLES: Final = frozenset(
    {
        VISIBLE_DEVICES,
        "NVIDIA_MIG_CONFIG_DEVICES",
        "NVIDIA_MIG_MONITOR_DEVICES",
        "NVIDIA_IMEX_CHANNELS",
        "NVIDIA_GDRCOPY",
        "NVIDIA_GDS",
        "NVIDIA_MOFED",
        "NVIDIA_NVSWITCH",
        "NVIDIA_FABRIC_IMEX_MGMT",
        "NVIDIA_CTK_MODE",
        "NVIDIA_RUNTIME_MODE",
        "AMD_VISIBLE_DEVICES",
        "HABANA_VISIBLE_DEVICES",
        "ASCEND_VISIBLE_DEVICES",
        "ASCEND_RUNTIME_OPTIONS",
        "MTHREADS_VISIBLE_DEVICES",
    }
)
_POLICED: Final = DEVICE_VARIABLES | {DRIVER_CAPABILITIES}
_CAPABILITIES: Final = frozenset({"compute", "utility", "video", "graphics", "compat32"})
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
    """The platform's variables, in the order in which they stand: the tenant's API first, then its services by name."""
    api = ServiceEnv("kubernetes", view.api_address, (ServicePort("https", view.api_port),))
    found = dict(_service_variables(api)) if view.api_address else {}
    if service_links:
        for service in sorted(view.services.get(namespace, ()), key=lambda entry: entry.name):
            if service.name != "kubernetes" or namespace != "default":
                found = dict(_service_variables(service)) | found
    head = {key: value for key, value in found.items() if key.startswith("KUBERNETES_")}
    return dict(sorted(head.items())) | dict(sorted((key, value) for key, value in found.items() if key not in head))


def env(
    container: Mapping[str, Any],
    path: str,
    namespace: str,
    *,
    platform: Mapping[str, str],
    wants_gpu: bool,
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
    if not wants_gpu:
        first.insert(0, {"name": VISIBLE_DEVICES, "value": "void"})
    return first + own


def env_from(container: Mapping[str, Any], path: str, namespace: str, view: TenantView) -> list[Obj]:
    """The container's `envFrom` on the host."""
    found: list[Obj] = []
    for at, entry in schema.items(container.get("envFrom"), f"{path}.envFrom"):
        translated = schema.struct(entry, _ENV_FROM, at)
        prefix = translated.get("prefix", "")
        if prefix and any(name.startswith(prefix) for name in _POLICED):
            raise Untranslatable(
                Reason.NOT_ALLOWED, f"the prefix {prefix[:64]!r} could spell a device variable; choose another", f"{at}.prefix"
            )
        for key, kind in (("configMapRef", CONFIG_MAP), ("secretRef", SECRET)):
            if entry.get(key) is not None:
                translated[key] = renamed(
                    schema.struct(entry[key], _SOURCE, f"{at}.{key}"), kind, f"{at}.{key}", namespace, view
                )
        found.append(translated)
    return found


def without_device_keys(data: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a ConfigMap or Secret that may become environment on the host."""
    return {key: value for key, value in data.items() if key not in DEVICE_VARIABLES and not _bad_capabilities(key, value)}


def renamed(source: Obj, kind: str, path: str, namespace: str, view: TenantView) -> Obj:
    """A reference by `name` with the host's name; never the tenant's own name, whatever it is."""
    name = metadata.object_name(source.get("name"), f"{path}.name")
    return source | {"name": view.host_name(kind, namespace, name)}


def _bad_capabilities(key: str, _value: Any) -> bool:
    return key == DRIVER_CAPABILITIES


def _entry(entry: Mapping[str, Any], path: str, namespace: str, view: TenantView) -> Obj | None:
    translated = schema.struct(entry, _ENV, path)
    name = translated.get("name", "")
    if not name or "=" in name or not name.isprintable():
        raise Untranslatable(Reason.MALFORMED, f"{name[:64]!r} is no name of a variable", f"{path}.name")
    if name in DEVICE_VARIABLES:
        return None
    if name == DRIVER_CAPABILITIES:
        wanted = set(translated.get("value", "").split(","))
        return translated if "valueFrom" not in entry and wanted <= _CAPABILITIES else None
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


def _service_variables(service: ServiceEnv) -> Iterator[tuple[str, str]]:
    """What a kubelet sets for one service."""
    if not service.ports or not _is_address(service.cluster_ip):
        return
    prefix = service.name.upper().replace("-", "_")
    address = service.cluster_ip
    in_url = f"[{address}]" if ":" in address else address
    first = service.ports[0]
    yield f"{prefix}_SERVICE_HOST", address
    yield f"{prefix}_SERVICE_PORT", str(first.port)
    for port in service.ports:
        if port.name:
            yield f"{prefix}_SERVICE_PORT_{port.name.upper().replace('-', '_')}", str(port.port)
    yield f"{prefix}_PORT", f"{first.protocol.lower()}://{in_url}:{first.port}"
    for port in service.ports:
        stem = f"{prefix}_PORT_{port.port}_{port.protocol.upper()}"
        yield stem, f"{port.protocol.lower()}://{in_url}:{port.port}"
        yield f"{stem}_PROTO", port.protocol.lower()
        yield f"{stem}_PORT", str(port.port)
        yield f"{stem}_ADDR", address


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True
