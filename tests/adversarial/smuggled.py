"""What a syncer without its own checks would write on the host: the honest mirror, with the attack left in.

    case ──> the honest mirror, translated ──> the case's fields over it, as the tenant wrote them ──> the host's object

Pure. Names, marks and gates of the mirror are the real ones, so a policy that refuses the object refuses the attack alone.
"""

from dataclasses import replace
from typing import Any, Final

from bulkhead.api.objects import Obj
from syncer.translate import TenantView
from syncer.translate.registry import KINDS
from tests.kit import translationsamples as samples

# The volumes that mounts and devices of cases name: without them the API server refuses the case for another reason.
_MOUNTED: Final = [{"name": "v", "emptyDir": {}}, {"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]
_NEED_VOLUMES: Final = {"volumeMounts", "volumeDevices"}
_SERVED: Final = {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "a", "port": {"number": 80}}}}]}
# What the honest twin of an object has where the case has the attack.
_HONEST: Final[dict[str, Obj]] = {
    "PersistentVolumeClaim": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    "ResourceClaim": {"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu.example.com"}}]}}},
    "NetworkPolicy": {"spec": {"podSelector": {}, "policyTypes": ["Egress"]}},
    "Service": {"spec": {"clusterIP": "10.112.4.50", "ports": [{"port": 80}]}},
    "Secret": {"type": "Opaque"},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}},
    "EndpointSlice": {"metadata": {"labels": {"kubernetes.io/service-name": "a"}}, "addressType": "IPv4", "endpoints": []},
}


def host_object(case: Any, view: TenantView) -> Obj:
    """The host's object with the attack of a case in it."""
    if "object" in case:
        return _other(case["object"], view)
    # At level restricted the sample itself is an attack: it is the host that has to say so here.
    mirror = KINDS["Pod"].to_host(samples.pod(), replace(view, pod_security="baseline"))
    return over(mirror, attack(case, mirror))


def virtual(case: Any, base: Obj) -> Obj:
    """The tenant's object that a case describes, over an honest pod."""
    if "object" in case:
        return over(case["object"], {})
    spec = dict(case.get("spec", {}))
    if "container" in case:
        (container,) = base["spec"]["containers"]
        spec["containers"] = [container | case["container"]]
        if _NEED_VOLUMES & case["container"].keys():
            spec["volumes"] = _MOUNTED
    return over(base, {"spec": spec, "metadata": case.get("metadata", {})})


def attack(case: Any, mirror: Obj) -> Obj:
    """What a case changes of the mirror: also what a merge patch of it would say."""
    spec = dict(case.get("spec", {}))
    if "container" in case:
        (container,) = mirror["spec"]["containers"]
        fields = dict(case["container"])
        if "envFrom" in fields:
            # Behind the tenant's own stands what closes the device variables, as it would in any mirror.
            fields["envFrom"] = [*fields["envFrom"], *container["envFrom"]]
        spec["containers"] = [container | fields]
        if _NEED_VOLUMES & fields.keys():
            spec["volumes"] = [*mirror["spec"].get("volumes", ()), *_MOUNTED]
    if "initContainers" in spec:
        closing = mirror["spec"]["containers"][0]["envFrom"]
        spec["initContainers"] = [{"envFrom": closing} | container for container in spec["initContainers"]]
    return {"metadata": case.get("metadata", {}), "spec": spec}


def debugger(case: Any, mirror: Obj) -> Obj:
    """The patch that adds the container of a case as an ephemeral one."""
    (container,) = attack(case, mirror)["spec"]["containers"]
    kept = {key: value for key, value in container.items() if key not in {"name", "resources"}} | {"name": "debug"}
    if "resources" in case["container"]:
        kept["resources"] = container["resources"]
    return {"spec": {"ephemeralContainers": [kept]}}


def over(mirror: Obj, changes: Obj) -> Obj:
    """Changes merged over an object."""
    found: Obj = samples.merged(mirror, changes)
    return found


def content(obj: Obj) -> Obj:
    """What an object says, without what API servers count and note: equal before and after a change that is ignored."""
    meta = {key: obj["metadata"].get(key) for key in ("labels", "annotations", "finalizers", "ownerReferences")}
    return {key: value for key, value in obj.items() if key not in {"metadata", "status"}} | {"metadata": meta}


def honest_of(kind: str, view: TenantView) -> Obj:
    """The mirror of an honest object of a kind that cases smuggle something into."""
    entry = KINDS[kind]
    bare: Obj = {"apiVersion": f"{entry.group}/{entry.version}".lstrip("/"), "kind": kind}
    bare["metadata"] = {"name": "a", "namespace": "team", "uid": "u1"}
    if kind == "Pod":
        bare = samples.merged(samples.pod(), {"metadata": bare["metadata"] | {"labels": {}}})
    elif kind == "Ingress":
        rule = {"host": f"{view.tenant}.{view.ingress_domains[0]}", "http": _SERVED}
        bare["spec"] = {"ingressClassName": "nginx", "rules": [rule]}
    honest = samples.merged(bare, _HONEST.get(kind, {}))
    # A claim of which the case names no class has none.
    return entry.to_host(honest, replace(view, storage_listed=False))


def _other(virtual: Obj, view: TenantView) -> Obj:
    mirror = honest_of(virtual["kind"], view)
    changes: Obj = over({key: virtual[key] for key in virtual if key not in {"apiVersion", "kind", "metadata"}}, {})
    changes["metadata"] = {key: value for key, value in virtual["metadata"].items() if key == "annotations"}
    if virtual["kind"] == "Service":
        spec = changes["spec"]
        if spec.get("type") == "ExternalName":
            for field in ("clusterIP", "clusterIPs"):
                del mirror["spec"][field]
        elif "clusterIP" in spec:
            spec["clusterIPs"] = [spec["clusterIP"]]
    return over(mirror, changes)
