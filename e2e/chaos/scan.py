"""I7: all host objects of all tenants once more against the policies, when a run is over.

Two judges: `findings`, pure rules of our own for what no host object may have; and the host itself, which is asked to create
a copy of each object as the syncer would (a dry run that changes nothing). So its admission decides again about the object
as it is now.
"""

import copy
import ipaddress
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from e2e import names
from e2e.api import Api, ApiError, Obj, UnreachableError, path_of
from e2e.chaos.history import Scanned
from e2e.tenants import Tenant

KINDS: Final = ("Pod", "ConfigMap", "Secret", "Service", "EndpointSlice", "PersistentVolumeClaim", "NetworkPolicy")
_MARK: Final = "bulkhead.dev/managed-by"
_IDENTITY: Final = ("bulkhead.dev/tenant-uid", "bulkhead.dev/virtual-kind", "bulkhead.dev/virtual-name")
# The host sets these after the syncer's create.
_HOSTS_OWN: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp",
                     "deletionGracePeriodSeconds", "selfLink", "ownerReferences", "finalizers")  # fmt: skip
# The ledger's notes, how a claim is bound, and where the scheduler placed a pod.
_ADDED: Final = {
    "annotations": ("ledger.bulkhead.dev/", "pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/"),
    "labels": ("topology.kubernetes.io/",),
}
_MAKER: Final = "endpointslice.kubernetes.io/managed-by"
_NEIGHBOURS: Final = 8  # addresses on each side of a Service's own that its copy tries
_POD_LEVELS: Final = frozenset({"baseline", "restricted"})
# A copy beside its original is more than the quota allows, and its address may be another Service's. A dry run takes any
# ServiceCIDR of the cluster for the one of an address, by chance (Kubernetes 1.36).
_NOT_A_VERDICT: Final = ("exceeded quota", "already allocated", "already exists", "is not in the valid range")


def scan(host: Api, tenant: Tenant, note: Callable[[str], None]) -> Scanned:
    """Scan one tenant. An object that goes meanwhile is not a finding."""
    uid = host.get("Tenant", tenant.name)["metadata"]["uid"]
    space = host.get("Namespace", tenant.work)
    found = list(namespace_findings(space))
    as_syncer = host.impersonating(f"system:serviceaccount:{tenant.plane}:syncer")
    objects = judged = 0
    services: set[str] = set()
    for kind in KINDS:
        for item in host.list(kind, tenant.work, labels=names.MIRRORED):
            item.setdefault("kind", kind)
            if kind == "Service":
                services.add(item["metadata"]["uid"])
            if made_by_the_host(item, services):
                continue
            objects += 1
            found += findings(item, uid)
            verdict = judge(as_syncer, kind, item)
            judged += verdict is not None
            if verdict:
                found.append(verdict)
    note(f"scanned {objects} host objects of {tenant.name}; the host judged {judged} again; {len(found)} findings")
    return Scanned(time.monotonic(), tenant.name, objects, judged, tuple(found))


def namespace_findings(space: Obj) -> Iterator[str]:
    """What is wrong with a work namespace. Pure."""
    level = (space["metadata"].get("labels") or {}).get("pod-security.kubernetes.io/enforce", "")
    if level not in _POD_LEVELS:
        yield f"namespace {space['metadata']['name']}: Pod Security enforces {level or 'nothing'}"


def made_by_the_host(item: Obj, services: Collection[str]) -> bool:
    """Whether the host's own controller made it, an EndpointSlice for one of these mirrored Services, by UID. Pure.

    It has the labels of its Service.
    """
    metadata = item["metadata"]
    if item["kind"] != "EndpointSlice" or (metadata.get("labels") or {}).get(_MAKER) != "endpointslice-controller.k8s.io":
        return False
    owners = metadata.get("ownerReferences") or []
    return any(owner.get("controller") and owner["kind"] == "Service" and owner["uid"] in services for owner in owners)


def findings(item: Obj, tenant_uid: str) -> Iterator[str]:
    """What is wrong with one host object, by rules of our own. Pure."""
    metadata = item["metadata"]
    name = f"{item['kind']} {metadata['name']}"
    annotations = metadata.get("annotations") or {}
    for key in _IDENTITY:
        if not annotations.get(key):
            yield f"{name}: annotation {key} is missing"
    if annotations.get(_IDENTITY[0], tenant_uid) != tenant_uid:
        yield f"{name}: it is marked as an object of the tenant with UID {annotations[_IDENTITY[0]]}"
    # The Secret of a pod's tokens goes with the pod.
    if any(owner.get("kind") != "Pod" or item["kind"] == "Pod" for owner in metadata.get("ownerReferences") or []):
        yield f"{name}: it has owners"
    rules = {"Pod": _pod, "Service": _service, "Secret": _secret}.get(item["kind"])
    if rules is not None:
        yield from (f"{name}: {text}" for text in rules(item))


def candidate(item: Obj) -> Obj:
    """The object as its syncer would create it: without what the host has added since. Pure."""
    made = copy.deepcopy(item)
    metadata = made["metadata"]
    for field in _HOSTS_OWN:
        metadata.pop(field, None)
    # A name that is free, and of the same form: 32 hex digits at the end.
    metadata["name"] = f"{metadata['name'][:-1]}{'0' if metadata['name'][-1] != '0' else '1'}"
    for field, prefixes in _ADDED.items():
        added = metadata.get(field) or {}
        for key in [key for key in added if key.startswith(prefixes)]:
            del added[key]
    made.pop("status", None)
    spec = made.get("spec") or {}
    if made["kind"] == "Pod":
        for field in ("nodeName", "ephemeralContainers"):
            spec.pop(field, None)
    if made["kind"] == "Service":
        spec.pop("healthCheckNodePort", None)
        for port in spec.get("ports") or []:
            port.pop("nodePort", None)
    if made["kind"] == "PersistentVolumeClaim":
        spec.pop("volumeName", None)
    return made


def judge(host: Api, kind: str, item: Obj) -> str | None:
    """The host's refusal of a copy; empty if it would create one, None if it gave no verdict."""
    made = candidate(item)
    refusal = None
    for attempt in _placed(made):
        verdict = _judge(host, kind, item, attempt)
        if verdict == "":
            return verdict
        refusal = refusal or verdict
    return refusal


def _placed(made: Obj) -> Iterator[Obj]:
    """The copy; one of a Service with an address of its own gets one near by, since its own is taken.

    The nearest may be another Service's, or another tenant's: it is refused if each of them is.
    """
    spec = made.get("spec") or {}
    own = spec.get("clusterIPs") or []
    if made["kind"] != "Service" or len(own) != 1 or own == ["None"]:
        yield made
        return
    for apart in range(1, _NEIGHBOURS + 1):
        for near in (ipaddress.ip_address(own[0]) + apart, ipaddress.ip_address(own[0]) - apart):
            yield made | {"spec": spec | {"clusterIP": str(near), "clusterIPs": [str(near)]}}


def _judge(host: Api, kind: str, item: Obj, made: Obj) -> str | None:
    space = item["metadata"]["namespace"]
    try:
        host.request("POST", path_of(kind, space), body=_typed(kind, made), query={"dryRun": "All"})
    except UnreachableError:
        return None
    except ApiError as exc:
        if any(text in exc.message for text in _NOT_A_VERDICT):
            return None
        return f"{kind} {item['metadata']['name']}: the host would refuse it now: {exc.message[:240]}"
    return ""


def _typed(kind: str, made: Obj) -> Obj:
    prefix = path_of(kind).split("/")
    version = prefix[2] if prefix[1] == "api" else "/".join(prefix[2:4])
    return {**made, "apiVersion": version, "kind": kind}


def _pod(pod: Mapping[str, Any]) -> Iterator[str]:
    spec = pod["spec"]
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"{field} is true"
    if spec.get("automountServiceAccountToken") is not False:
        yield "a token of the host is mounted"
    for volume in spec.get("volumes") or []:
        if "hostPath" in volume:
            yield f"volume {volume['name']} is a path of the node"
    containers = [*spec["containers"], *(spec.get("initContainers") or []), *(spec.get("ephemeralContainers") or [])]
    for container in containers:
        context = container.get("securityContext") or {}
        if context.get("privileged"):
            yield f"container {container['name']} is privileged"
        if context.get("procMount", "Default") != "Default":
            yield f"container {container['name']} has procMount {context['procMount']}"
        profile = (context.get("seccompProfile") or (spec.get("securityContext") or {}).get("seccompProfile") or {}).get("type")
        if profile not in {"RuntimeDefault", "Localhost"}:
            yield f"container {container['name']} has seccomp profile {profile or 'none'}"
        if any(port.get("hostPort") for port in container.get("ports") or []):
            yield f"container {container['name']} has a port of the node"


def _service(service: Mapping[str, Any]) -> Iterator[str]:
    spec = service.get("spec") or {}
    if spec.get("externalIPs"):
        yield f"it claims the addresses {spec['externalIPs']}"
    if spec.get("type") == "ExternalName":
        yield "it is an ExternalName"


def _secret(secret: Mapping[str, Any]) -> Iterator[str]:
    if secret.get("type") == "kubernetes.io/service-account-token":
        yield "the host would fill in a token"
