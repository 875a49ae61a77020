"""Containers, init containers and ephemeral containers on the host, field by field.

Commands, images and probes are the tenant's business and pass as they are; environment, mounts, resources and the security
context are where a container could reach for what is not its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bulkhead.api import devices
from bulkhead.api.objects import Obj
from bulkhead.api.quantity import InvalidQuantityError, parse, whole
from syncer.translate import schema
from syncer.translate.podspec import environment
from syncer.translate.podspec.security import SECURITY_CONTEXT
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import (
    COUNT,
    FLAG,
    INT_OR_TEXT,
    NAME,
    QUANTITY,
    TEXT,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Struct,
    Text,
    Translated,
)  # fmt: skip
from syncer.translate.view import TenantView

MOST_CONTAINERS: Final = 100
_PATH: Final = Text(4096)
_ENDPOINT: Final[dict[str, schema.Rule]] = {"port": INT_OR_TEXT, "host": Text(253)}
_EXEC: Final = Struct({"command": ListOf(TEXT)})
_HTTP_GET: Final = Struct(
    {
        **_ENDPOINT,
        "path": _PATH,
        "scheme": OneOf(("", "HTTP", "HTTPS")),
        "httpHeaders": ListOf(Struct({"name": Text(4096), "value": TEXT})),
    }
)
_TCP_SOCKET: Final = Struct(_ENDPOINT)
PROBE: Final = Struct({
    "exec": _EXEC,
    "httpGet": _HTTP_GET,
    "tcpSocket": _TCP_SOCKET,
    "grpc": Struct({"port": COUNT, "service": Text(253)}),
    **dict.fromkeys(
        (
            "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
            "terminationGracePeriodSeconds",
        ),
        COUNT,
    ),
})  # fmt: skip
_HANDLER: Final = Struct({
    "exec": _EXEC, "httpGet": _HTTP_GET, "tcpSocket": _TCP_SOCKET, "sleep": Struct({"seconds": COUNT}),
})  # fmt: skip
RESOURCES: Final = Struct(
    {
        "limits": MapOf(QUANTITY, 64),
        "requests": MapOf(QUANTITY, 64),
        "claims": ListOf(Struct({"name": Text(63), "request": Text(127)}), 32),
    }
)

# Every field of a container of Kubernetes 1.36.
CONTAINER: Final = Struct(
    {
        "name": Text(63),
        "image": Text(4096),
        "command": ListOf(TEXT),
        "args": ListOf(TEXT),
        "workingDir": _PATH,
        "ports": ListOf(
            Struct(
                {
                    "name": Text(15),
                    "containerPort": schema.PORT,
                    "protocol": OneOf(("", "TCP", "UDP", "SCTP")),
                    "hostPort": Number(0, 65535),
                    "hostIP": Text(64),
                }
            )
        ),
        "envFrom": Translated("environment"),
        "env": Translated("environment"),
        "resources": RESOURCES,
        "resizePolicy": ListOf(Struct({"resourceName": NAME, "restartPolicy": OneOf(("NotRequired", "RestartContainer"))})),
        "restartPolicy": OneOf(("", "Always", "OnFailure", "Never")),
        "restartPolicyRules": ListOf(
            Struct(
                {
                    "action": Text(64),
                    "exitCodes": Struct({"operator": OneOf(("In", "NotIn")), "values": ListOf(Number(0, 255))}),
                }
            )
        ),
        "volumeMounts": ListOf(
            Struct(
                {
                    "name": Text(63),
                    "readOnly": FLAG,
                    "recursiveReadOnly": OneOf(("Disabled", "IfPossible", "Enabled")),
                    "mountPath": _PATH,
                    "subPath": _PATH,
                    "subPathExpr": _PATH,
                    "mountPropagation": OneOf(("None", "HostToContainer"), Reason.NOT_ALLOWED),
                }
            )
        ),
        "volumeDevices": ListOf(Struct({"name": Text(63), "devicePath": _PATH})),
        "livenessProbe": PROBE,
        "readinessProbe": PROBE,
        "startupProbe": PROBE,
        "lifecycle": Struct({"postStart": _HANDLER, "preStop": _HANDLER, "stopSignal": Text(64)}),
        "terminationMessagePath": _PATH,
        "terminationMessagePolicy": OneOf(("", "File", "FallbackToLogsOnError")),
        "imagePullPolicy": OneOf(("", "Always", "IfNotPresent", "Never")),
        "securityContext": SECURITY_CONTEXT,
        "stdin": FLAG,
        "stdinOnce": FLAG,
        "tty": FLAG,
    }
)
EPHEMERAL_CONTAINER: Final = Struct({**CONTAINER.fields, "targetContainerName": Text(63)})

_COMMON_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
# A folder of which NVIDIA's runtime can be set to read mounts as requests for devices; the host's policy refuses it too.
_DEVICE_MOUNTS: Final = "nvidia-container-devices"


@dataclass(frozen=True, slots=True)
class Place:
    """What all containers of one pod share."""

    namespace: str
    platform_env: Mapping[str, str]
    view: TenantView


def containers(spec: Mapping[str, Any], field: str, place: Place, rule: Struct = CONTAINER) -> list[Obj]:
    """One of the pod's lists of containers on the host."""
    path = f"spec.{field}"
    return [container(entry, at, place, rule) for at, entry in schema.items(spec.get(field), path, MOST_CONTAINERS)]


def container(entry: Mapping[str, Any], path: str, place: Place, rule: Struct = CONTAINER) -> Obj:
    """One container on the host."""
    translated = schema.struct(entry, rule, path)
    if not translated.get("name"):
        raise Untranslatable(Reason.MALFORMED, "a container needs a name", f"{path}.name")
    check_resources(translated.get("resources", {}), f"{path}.resources", place.view)
    vendor = _vendor(translated.get("resources", {}), f"{path}.resources", place.view)
    from_maps = environment.env_from(entry, path, place.namespace, vendor, place.view)
    if from_maps:
        translated["envFrom"] = from_maps
    variables = environment.env(entry, path, place.namespace, platform=place.platform_env, vendor=vendor, view=place.view)
    if variables:
        translated["env"] = variables
    _check_mounts(translated, path)
    _shorten(translated, place.view.max_grace_seconds)
    return translated


def _shorten(container: Obj, most: int) -> None:
    """No probe gives a container longer to end than its pod may have, and no hook sleeps longer."""
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name, {})
        if "terminationGracePeriodSeconds" in probe:
            probe["terminationGracePeriodSeconds"] = min(probe["terminationGracePeriodSeconds"], most)
    for handler in container.get("lifecycle", {}).values():
        if isinstance(handler, dict) and "seconds" in handler.get("sleep", {}):
            handler["sleep"]["seconds"] = min(handler["sleep"]["seconds"], most)


def container_names(virtual: Mapping[str, Any]) -> frozenset[str]:
    """The names of all containers of a virtual pod, of every sort."""
    spec = virtual.get("spec") or {}
    lists = (spec.get(name) or [] for name in ("containers", "initContainers", "ephemeralContainers"))
    return frozenset(str(entry.get("name", "")) for each_list in lists for entry in each_list if isinstance(entry, dict))


def _accelerators(resources: Mapping[str, Any], view: TenantView) -> set[str]:
    asked = [(key, value) for part in ("limits", "requests") for key, value in (resources.get(part) or {}).items()]
    return {key for key, value in asked if key in view.gpu_resources and parse(value) > 0}


def _vendor(resources: Mapping[str, Any], path: str, view: TenantView) -> devices.Vendor | None:
    """Whose accelerators a container asks for: its device plugin instructs that vendor's runtime, all others get "none"."""
    found = devices.vendors_of(_accelerators(resources, view))
    if len(found) > 1 and view.judges:
        names = " and ".join(vendor.name for vendor in found)
        raise Untranslatable(
            Reason.NOT_SUPPORTED, f"accelerators of {names} in one container; ask for one vendor's in each", path
        )
    return found[0] if found else None


def check_resources(resources: Mapping[str, Any], path: str, view: TenantView) -> None:
    """Refuse resources that the tenant may not ask for, and fractions of what can only be had whole."""
    for part in ("limits", "requests"):
        for key, value in (resources.get(part) or {}).items():
            if key in _COMMON_RESOURCES:
                continue
            offered = key in view.gpu_resources or key in view.allowed_resources
            if not offered and view.judges:
                raise Untranslatable(Reason.NOT_ALLOWED, f"the resource {key[:64]!r} is not offered", f"{path}.{part}")
            if key.startswith("hugepages-"):
                continue
            try:
                whole(value)
            except InvalidQuantityError as error:
                raise Untranslatable(Reason.MALFORMED, f"{key}: {error}", f"{path}.{part}") from error


def _check_mounts(translated: Mapping[str, Any], path: str) -> None:
    """What stands in the mounts themselves; what an expression comes to the kubelet judges, which knows all its values."""
    for index, mount in enumerate(translated.get("volumeMounts", [])):
        at = f"{path}.volumeMounts[{index}]"
        for key in ("subPath", "subPathExpr"):
            parts = mount.get(key, "").split("/")
            if ".." in parts or mount.get(key, "").startswith("/"):
                raise Untranslatable(Reason.NOT_ALLOWED, "must stay inside the volume", f"{at}.{key}")
        if _DEVICE_MOUNTS in mount.get("mountPath", ""):
            raise Untranslatable(Reason.NOT_ALLOWED, "mounts here ask the runtime for devices", f"{at}.mountPath")
