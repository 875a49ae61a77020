"""What a syncer without its own checks would write on the host: the honest mirror, with the attack left in.

    case ──> the honest mirror, translated ──> the case's fields over it, as the tenant wrote them ──> the host's object

Pure. Names, marks and gates of the mirror are the real ones, so a policy that refuses the object refuses the attack alone.
"""

from dataclasses import replace
from typing import Any, Final

from syncer.translate import Obj, TenantView
from syncer.translate.registry import KINDS
from tests.kit import translationsamples as samples

# The volumes that mounts and devices of cases name: without them the API server refuses the case for another reason.
_MOUNTED: Final = [{"name": "v", "emptyDir": {}}, {"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]
_NEED_VOLUMES: Final = {"volumeMounts", "volumeDevices"}
# What the honest twin of an object has where the case has the attack.
_HONEST: Final[dict[str, Obj]] = {
    "Service": {"spec": {"clusterIP": "10.112.4.50", "ports": [{"port": 80}]}},
    "Secret": {"type": "Opaque"},
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


def _other(virtual: Obj, view: TenantView) -> Obj:
    kind = virtual["kind"]
    bare = {key: virtual[key] for key in ("apiVersion", "kind")}
    meta = {key: virtual["metadata"][key] for key in ("name", "namespace", "uid")}
    if kind == "Pod":
        meta["labels"] = {}
        honest = samples.merged(samples.pod(), {"metadata": meta})
    elif kind == "EndpointSlice":
        labels = {"metadata": meta | {"labels": virtual["metadata"]["labels"]}, "addressType": "IPv4", "endpoints": []}
        honest = bare | labels
    else:
        honest = bare | {"metadata": meta} | _HONEST.get(kind, {})
    mirror = KINDS[kind].to_host(honest, view)
    changes = {key: value for key, value in virtual.items() if key not in {"apiVersion", "kind", "metadata"}}
    changes["metadata"] = {key: value for key, value in virtual["metadata"].items() if key == "annotations"}
    return over(mirror, changes)
