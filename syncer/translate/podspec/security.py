"""Security contexts on the host, from an allowlist. What level of Pod Security they meet is judged in `podsecurity.py`.

System calls are always filtered: by the container runtime's own profile unless the pod names another, and a profile that lies
on the nodes only where the class lists it. What those allow is their author's business, and one may well allow everything.
"""

from collections.abc import Mapping
from typing import Any, Final

from bulkhead.api.objects import Obj
from syncer.translate import schema
from syncer.translate.podspec import podsecurity
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.schema import FLAG, ListOf, Number, OneOf, Refused, Struct, Text
from syncer.translate.view import TenantView

_ID: Final = Number(0, (1 << 31) - 1)
_SELINUX: Final = Struct({"user": Text(253), "role": Text(253), "type": Text(253), "level": Text(253)})
_SECCOMP: Final = Struct({"type": OneOf(("RuntimeDefault", "Localhost", "Unconfined")), "localhostProfile": Text(4096)})
_APPARMOR: Final = Struct({"type": OneOf(("RuntimeDefault", "Localhost", "Unconfined")), "localhostProfile": Text(4096)})
_WINDOWS: Final = Refused("the nodes run Linux", Reason.POD_SECURITY)

POD_SECURITY_CONTEXT: Final = Struct(
    {
        "seLinuxOptions": _SELINUX,
        "windowsOptions": _WINDOWS,
        "runAsUser": _ID,
        "runAsGroup": _ID,
        "runAsNonRoot": FLAG,
        "supplementalGroups": ListOf(_ID),
        "supplementalGroupsPolicy": OneOf(("Merge", "Strict")),
        "fsGroup": _ID,
        "fsGroupChangePolicy": OneOf(("OnRootMismatch", "Always")),
        "sysctls": ListOf(Struct({"name": Text(253), "value": Text(1024)})),
        "seccompProfile": _SECCOMP,
        "appArmorProfile": _APPARMOR,
        "seLinuxChangePolicy": OneOf(("Recursive", "MountOption")),
    }
)

SECURITY_CONTEXT: Final = Struct(
    {
        "capabilities": Struct({"add": ListOf(Text(64), 64), "drop": ListOf(Text(64), 64)}),
        "privileged": FLAG,
        "seLinuxOptions": _SELINUX,
        "windowsOptions": _WINDOWS,
        "runAsUser": _ID,
        "runAsGroup": _ID,
        "runAsNonRoot": FLAG,
        "readOnlyRootFilesystem": FLAG,
        "allowPrivilegeEscalation": FLAG,
        "procMount": OneOf(("Default", "Unmasked")),
        "seccompProfile": _SECCOMP,
        "appArmorProfile": _APPARMOR,
    }
)


def of_pod(spec: Mapping[str, Any]) -> Obj:
    """The pod's security context on the host; containers that name no profile for system calls have the pod's."""
    context = schema.struct(spec.get("securityContext"), POD_SECURITY_CONTEXT, "spec.securityContext")
    return {"seccompProfile": {"type": "RuntimeDefault"}} | context


def check_profiles(spec: Mapping[str, Any], view: TenantView) -> None:
    """Refuse profiles of the nodes that the class does not list, in the spec of a host pod."""
    offered = {"seccompProfile": view.seccomp_profiles, "appArmorProfile": view.apparmor_profiles}
    for path, context in podsecurity.contexts(spec):
        for key, allowed in offered.items():
            profile = context.get(key) or {}
            name = profile.get("localhostProfile", "")
            if profile.get("type") == "Localhost" and name not in allowed:
                listed = ", ".join(sorted(allowed)) or "none"
                message = f"the profile {name[:64]!r} is not offered; use RuntimeDefault, or one of the class's: {listed}"
                raise Untranslatable(Reason.NOT_ALLOWED, message, f"{path}.{key}.localhostProfile")
