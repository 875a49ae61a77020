"""Pod Security, baseline and restricted (v1.36), judged on the host object: what counts is what will run.

A second, independent judge stands on the host (Pod Security admission and an admission policy). This one comes first, so that
the tenant reads the field and the reason on its own pod. Baseline holds for every tenant, whatever its level says.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from bulkhead.api.privileges import BASELINE_CAPABILITIES, SLINKY_WORKERS
from syncer.translate import alternatives
from syncer.translate.reasons import Reason, Untranslatable
from syncer.translate.view import RESTRICTED

Violation: TypeAlias = tuple[str, str]  # field, message

_SAFE_SYSCTLS: Final = frozenset({
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
})  # fmt: skip
_SELINUX_TYPES: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
_PROFILES: Final = frozenset({"RuntimeDefault", "Localhost"})
_RESTRICTED_VOLUMES: Final = frozenset({
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
})  # fmt: skip
_WAY_OUT: Final = (
    f"; of Slinky's workers, isolation.dropPrivileges: {SLINKY_WORKERS} of the Tenant or its class takes it when they are made"
)
_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


def check(spec: Mapping[str, Any], level: str, *, droppable: bool = False) -> None:
    """Raise for the first violation of `level` in the spec of a host pod; `droppable`: its plane can take privileges."""
    for field, message in violations(spec, level):
        way_out = _WAY_OUT if droppable and _is_privilege(field) else ""
        raise Untranslatable(Reason.POD_SECURITY, f"{message}{way_out}", field)


def _is_privilege(field: str) -> bool:
    return field.endswith(".privileged") or ".capabilities.add" in field


def violations(spec: Mapping[str, Any], level: str) -> Iterator[Violation]:
    """Every violation of baseline, and of restricted where that is the level."""
    yield from _baseline(spec)
    if level == RESTRICTED:
        yield from _restricted(spec)


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in _LISTS:
        for index, container in enumerate(spec.get(name) or ()):
            yield f"spec.{name}[{index}]", container


def contexts(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Path and content of every security context of a pod, its own first."""
    yield "spec.securityContext", spec.get("securityContext") or {}
    for path, container in _containers(spec):
        yield f"{path}.securityContext", container.get("securityContext") or {}


def _baseline(spec: Mapping[str, Any]) -> Iterator[Violation]:
    for key, message in alternatives.SHARED_WITH_A_NODE.items():
        if spec.get(key):
            yield f"spec.{key}", message
    for index, volume in enumerate(spec.get("volumes") or ()):
        if "hostPath" in volume:
            yield f"spec.volumes[{index}].hostPath", alternatives.HOST_PATH
    for index, sysctl in enumerate((spec.get("securityContext") or {}).get("sysctls") or ()):
        if sysctl.get("name") not in _SAFE_SYSCTLS:
            yield f"spec.securityContext.sysctls[{index}]", f"the sysctl {sysctl.get('name')!r} is not one of the safe ones"
    for path, context in contexts(spec):
        yield from _baseline_context(path, context)
    for path, container in _containers(spec):
        yield from _baseline_container(path, container)


def _baseline_context(path: str, context: Any) -> Iterator[Violation]:
    windows = context.get("windowsOptions") or {}
    if windows.get("hostProcess"):
        yield f"{path}.windowsOptions.hostProcess", "host processes are not allowed"
    selinux = context.get("seLinuxOptions") or {}
    if selinux.get("type", "") not in _SELINUX_TYPES:
        yield f"{path}.seLinuxOptions.type", f"the SELinux type {selinux['type']!r} is not allowed"
    for key in ("user", "role"):
        if selinux.get(key):
            yield f"{path}.seLinuxOptions.{key}", f"an SELinux {key} may not be set"
    for key in ("seccompProfile", "appArmorProfile"):
        profile = context.get(key)
        if profile is not None and profile.get("type") not in _PROFILES:
            yield f"{path}.{key}.type", "the profile must be RuntimeDefault or Localhost"
    if context.get("privileged"):
        yield f"{path}.privileged", alternatives.PRIVILEGED
    if context.get("procMount", "Default") != "Default":
        yield f"{path}.procMount", "procMount must be Default"
    for index, capability in enumerate((context.get("capabilities") or {}).get("add") or ()):
        if capability not in BASELINE_CAPABILITIES:
            yield f"{path}.capabilities.add[{index}]", f"the capability {capability!r} may not be added"


def _baseline_container(path: str, container: Mapping[str, Any]) -> Iterator[Violation]:
    for index, port in enumerate(container.get("ports") or ()):
        if port.get("hostPort"):
            yield f"{path}.ports[{index}].hostPort", alternatives.HOST_PORT
    lifecycle = container.get("lifecycle") or {}
    handlers = {key: container.get(key) for key in ("livenessProbe", "readinessProbe", "startupProbe")}
    handlers |= {f"lifecycle.{key}": lifecycle.get(key) for key in ("postStart", "preStop")}
    for key, handler in handlers.items():
        for action in ("httpGet", "tcpSocket"):
            if ((handler or {}).get(action) or {}).get("host"):
                yield f"{path}.{key}.{action}.host", "the kubelet would connect to another host; leave `host` out"


def _restricted(spec: Mapping[str, Any]) -> Iterator[Violation]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for key in sorted(set(volume) - {"name"} - _RESTRICTED_VOLUMES):
            yield f"spec.volumes[{index}].{key}", f"volumes of kind {key} are not allowed at level restricted"
    pod = spec.get("securityContext") or {}
    if pod.get("runAsUser") == 0:
        yield "spec.securityContext.runAsUser", "must not be 0 at level restricted"
    for path, container in _containers(spec):
        yield from _restricted_container(f"{path}.securityContext", container.get("securityContext") or {}, pod)


def _restricted_container(path: str, context: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[Violation]:
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{path}.allowPrivilegeEscalation", "must be false at level restricted"
    non_root = context.get("runAsNonRoot")
    if not (pod.get("runAsNonRoot") if non_root is None else non_root):
        yield f"{path}.runAsNonRoot", "must be true at level restricted"
    if context.get("runAsUser") == 0:
        yield f"{path}.runAsUser", "must not be 0 at level restricted"
    if not (context.get("seccompProfile") or pod.get("seccompProfile")):
        yield f"{path}.seccompProfile.type", "must be RuntimeDefault or Localhost at level restricted"
    capabilities = context.get("capabilities") or {}
    if "ALL" not in (capabilities.get("drop") or ()):
        yield f"{path}.capabilities.drop", "must contain ALL at level restricted"
    if set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
        yield f"{path}.capabilities.add", "only NET_BIND_SERVICE may be added at level restricted"
