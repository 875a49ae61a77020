"""What differs from kind to kind: defaults, which fields an update may change, graceful deletion, subresources, admission.

Only as much as the syncer can notice. Where it is simpler than the real thing the differential test leaves the field out and
`docs/decisions/0015-simulation.md` names it.
"""

import ipaddress
from typing import TYPE_CHECKING, Any

from bulkhead.api.objects import Obj
from bulkhead.kube.objects import Key, Resource
from bulkhead.kube.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from tests.simulation.store import copied
from tests.simulation.virtualtime import stamp

if TYPE_CHECKING:
    from tests.simulation.api import Api, Call, Route

GPU = "nvidia.com/gpu"
_FINAL = ("Succeeded", "Failed")
_ADMITTED = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for name in ("not-ready", "unreachable")
]
# What holds an object of these until its controller lets go.
PROTECTION = {
    PERSISTENT_VOLUME_CLAIMS: "kubernetes.io/pvc-protection",
    PERSISTENT_VOLUMES: "kubernetes.io/pv-protection",
}
# Fields that are set once.
_ONCE = {SECRETS: ("type",), ENDPOINT_SLICES: ("addressType",), PERSISTENT_VOLUME_CLAIMS: ("spec", "volumeName")}
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class Rules:
    """The rules of one API server."""

    def __init__(self, api: "Api") -> None:
        self._api = api
        self.addresses: dict[str, str] = {}
        self.range = ipaddress.ip_network("10.112.0.0/22")

    # -- creating

    def prepare(self, r: Resource, obj: Obj) -> None:
        """Defaults and admission of a new object."""
        if r == PODS:
            self._new_pod(obj)
        elif r == SERVICES:
            self._new_service(obj)
        elif r == NAMESPACES:
            obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
            obj["spec"] = {"finalizers": ["kubernetes"]}
            obj["status"] = {"phase": "Active"}
        elif r == NODES:
            spec = obj.setdefault("spec", {})
            spec["taints"] = [*(spec.get("taints") or []), _NOT_READY]
        elif r == SECRETS:
            obj.setdefault("type", "Opaque")
            _plain_data(obj)
        elif r == RESOURCE_QUOTAS:
            obj.setdefault("status", {})
        elif r in PROTECTION:
            obj["metadata"]["finalizers"] = [PROTECTION[r]]
            obj["status"] = {"phase": "Pending"}
            _default(obj["spec"], volumeMode="Filesystem")

    def _new_pod(self, obj: Obj) -> None:
        spec, meta = obj["spec"], obj["metadata"]
        meta["generation"] = 1
        for name in [each for each, value in spec.items() if value == []]:
            del spec[name]
        _default(spec, restartPolicy="Always", terminationGracePeriodSeconds=30, dnsPolicy="ClusterFirst", securityContext={},
                 schedulerName="default-scheduler", enableServiceLinks=True, priority=0,
                 preemptionPolicy="PreemptLowerPriority")  # fmt: skip
        have = {each.get("key") for each in spec.get("tolerations") or ()}
        spec["tolerations"] = [*(spec.get("tolerations") or []), *(each for each in _ADMITTED if each["key"] not in have)]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            _default(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File", resources={},
                     imagePullPolicy="Always" if str(container["image"]).endswith(":latest") else "IfNotPresent")  # fmt: skip
            resources = container["resources"]
            if resources.get("limits"):
                resources["requests"] = resources["limits"] | (resources.get("requests") or {})
        for volume in spec.get("volumes") or ():
            for source in ("configMap", "secret", "projected"):
                if source in volume:
                    volume[source].setdefault("defaultMode", 420)
        if spec.get("serviceAccountName"):
            spec["serviceAccount"] = spec["serviceAccountName"]
        obj["status"] = {"phase": "Pending", "qosClass": _quality(spec)}
        if spec.get("schedulingGates"):
            text = "Scheduling is blocked due to non-empty scheduling gates"
            gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": text}
            obj["status"]["conditions"] = [gated | {"lastTransitionTime": stamp(self._api.now())}]
        self._admit(obj)

    def _admit(self, pod: Obj) -> None:
        """ResourceQuota: live pods are counted as they are now."""
        space = pod["metadata"]["namespace"]
        for quota in self._api.store.all(RESOURCE_QUOTAS, space):
            hard = (quota.get("spec") or {}).get("hard") or {}
            for name, text in hard.items():
                asked = _counted(pod, name)
                live = (each for each in self._api.store.all(PODS, space) if each["status"].get("phase") not in _FINAL)
                used = sum(_counted(each, name) for each in live)
                if asked and used + asked > int(text):
                    from tests.simulation.api import Refused

                    about = f'pods "{pod["metadata"]["name"]}" is forbidden: exceeded quota: {quota["metadata"]["name"]}'
                    numbers = f"requested: {name}={asked}, used: {name}={used}, limited: {name}={text}"
                    raise Refused(403, "Forbidden", f"{about}, {numbers}")

    def _new_service(self, obj: Obj) -> None:
        spec = obj["spec"]
        _default(spec, type="ClusterIP", sessionAffinity="None")
        obj["status"] = {"loadBalancer": {}}
        if spec["type"] == "ExternalName":
            return
        _default(spec, internalTrafficPolicy="Cluster", ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
        for port in spec.get("ports") or ():
            _default(port, protocol="TCP", targetPort=port["port"])
        address = spec.get("clusterIP")
        if not address:
            address = next(str(each) for each in list(self.range.hosts())[40:] if str(each) not in self.addresses)
        if address != "None":
            if address in self.addresses:
                from tests.simulation.api import Refused

                name = obj["metadata"]["name"]
                text = f'Service "{name}" is invalid: spec.clusterIPs: Invalid value: ["{address}"]: failed to allocate IP'
                raise Refused(422, "Invalid", f"{text} {address}: provided IP is already allocated")
            self.addresses[address] = obj["metadata"]["uid"]
        spec |= {"clusterIP": address, "clusterIPs": [address]}

    def undo(self, r: Resource, obj: Obj) -> None:
        """Give back what a Service held, when it goes or was not stored."""
        if r == SERVICES:
            address = obj["spec"].get("clusterIP")
            if self.addresses.get(str(address)) == obj["metadata"]["uid"]:
                del self.addresses[str(address)]

    # -- updating

    def updated(self, where: "Route", held: Obj, news: Obj) -> None:
        """What an update, or an update of a subresource, may change; `news` is made so."""
        if where.subresource == "status":
            kept = ("spec", "data", "type")
            for name in kept:
                _keep(held, news, name)
            if where.r == PODS:
                _keep(held["metadata"], news["metadata"], "ownerReferences")
                _keep_quality(held, news)
                for condition in news["status"].get("conditions") or ():
                    # An empty time counts as none: API servers do not distinguish them.
                    for empty in [each for each, value in condition.items() if value is None]:
                        del condition[empty]
            return
        if where.r in (PODS, SERVICES, NODES, NAMESPACES, *PROTECTION):
            _keep(held, news, "status")
        if where.r == SECRETS:
            _plain_data(news)
        if where.r == PODS:
            self._pod_spec(where, held, news)
        if (
            where.r in (CONFIG_MAPS, SECRETS)
            and held.get("immutable")
            and (_content(held) != _content(news) or not news.get("immutable"))
        ):
            self._invalid(where, "data: Forbidden: field is immutable when `immutable` is set")
        if where.r == SERVICES:
            self._service_spec(where, held, news)
        for r, path in _ONCE.items():
            if where.r == r and _at(held, path) not in (None, _at(news, path)):
                self._invalid(where, f"{'.'.join(path)}: Invalid value: field is immutable")

    def _pod_spec(self, where: "Route", held: Obj, news: Obj) -> None:
        old, new = copied(held["spec"]), copied(news["spec"])
        if where.subresource == "resize":
            for spec in (old, new):
                for container in spec["containers"]:
                    container.pop("resources", None)
        elif where.subresource == "ephemeralcontainers":
            old.pop("ephemeralContainers", None)
            new.pop("ephemeralContainers", None)
            for each in news["spec"].get("ephemeralContainers") or ():
                _default(each, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File", resources={},
                         imagePullPolicy="IfNotPresent")  # fmt: skip
        else:
            for spec in (old, new):
                spec.pop("activeDeadlineSeconds", None)
                spec.pop("schedulingGates", None)
                for container in (*spec.get("initContainers", ()), *spec["containers"]):
                    container.pop("image", None)
            kept = new.pop("tolerations", [])
            if any(each not in kept for each in old.pop("tolerations", [])):
                self._invalid(where, "spec.tolerations: Forbidden: existing toleration can not be modified except its seconds")
        if old != new:
            self._invalid(where, "spec: Forbidden: pod updates may not change fields other than image, gates, tolerations")
        if news["spec"] != held["spec"]:
            news["metadata"]["generation"] = held["metadata"].get("generation", 0) + 1

    def _service_spec(self, where: "Route", held: Obj, news: Obj) -> None:
        old, new = held["spec"], news["spec"]
        for port in new.get("ports") or ():
            _default(port, protocol="TCP", targetPort=port["port"])
        for name in ("clusterIP", "clusterIPs"):
            if not new.get(name) and old.get(name):
                new[name] = copied(old[name])
        if old.get("clusterIP") and new.get("clusterIP") != old["clusterIP"] and new.get("type") != "ExternalName":
            self._invalid(where, "spec.clusterIPs[0]: Invalid value: may not change once set")

    def _invalid(self, where: "Route", text: str) -> None:
        from tests.simulation.api import Refused

        raise Refused(422, "Invalid", f'{where.r.kind} "{where.name}" is invalid: {text}')

    # -- deleting

    def grace(self, pod: Obj, asked: int | None) -> int:
        """Seconds that a pod gets that is deleted for the first time."""
        spec = pod["spec"]
        if not spec.get("nodeName") or pod["status"].get("phase") in _FINAL:
            return 0
        return int(spec.get("terminationGracePeriodSeconds", 30)) if asked is None else max(0, asked)

    def answers_with_object(self, r: Resource) -> bool:
        """Whether a delete that is done at once answers with the object, and not with a Status."""
        return r in (SERVICES, SERVICE_ACCOUNTS, RESOURCE_QUOTAS) and r != EVENTS

    # -- subresources

    def subresource(self, call: "Call", held: Obj) -> Obj:
        """POST to binding, token."""
        if call.route.subresource == "binding":
            return self._bind(call, held)
        if call.route.subresource == "token":
            return self._token(call)
        from tests.simulation.api import Refused

        raise Refused(404, "NotFound", f"the server could not find the requested resource {call.route.subresource}")

    def _bind(self, call: "Call", held: Obj) -> Obj:
        from tests.simulation.api import Refused

        meta = call.body.get("metadata") or {}
        text = f'Operation cannot be fulfilled on pods/binding "{call.route.name}": '
        if meta.get("uid") and meta["uid"] != held["metadata"]["uid"]:
            raise Refused(409, "Conflict", f"{text}Precondition failed: UID in precondition: {meta['uid']}")
        if held["metadata"].get("deletionTimestamp"):
            raise Refused(409, "Conflict", f"{text}pod {call.route.name} is being deleted, cannot be assigned to a host")
        if held["spec"].get("nodeName"):
            raise Refused(409, "Conflict", f"{text}pod {call.route.name} is already assigned to node")
        if held["spec"].get("schedulingGates"):
            raise Refused(409, "Conflict", f"{text}pod {call.route.name} has non-empty .spec.schedulingGates")
        bound = copied(held)
        bound["spec"]["nodeName"] = call.body["target"]["name"]
        conditions = bound["status"].setdefault("conditions", [])
        held_one = next((each for each in conditions if each["type"] == "PodScheduled"), None)
        if held_one is None:
            conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(self._api.now())})
        elif held_one.get("status") != "True":
            at = conditions.index(held_one)
            conditions[at] = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(self._api.now())}
        self._api.store.put(PODS, bound, call.user)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}

    def _token(self, call: "Call") -> Obj:
        from tests.simulation.api import Refused

        spec: dict[str, Any] = copied(call.body["spec"])
        bound = spec.get("boundObjectRef") or {}
        pod = self._api.store.get(PODS, Key(call.route.namespace or "", bound.get("name", "")))
        if pod is None:
            raise Refused(404, "NotFound", f'pods "{bound.get("name")}" not found', name=str(bound.get("name")))
        if pod["metadata"]["uid"] != bound.get("uid"):
            raise Refused(409, "Conflict", f"the UID in the bound object reference ({bound.get('uid')}) does not match the UID")
        seconds = int(spec.get("expirationSeconds", 3600))
        spec["expirationSeconds"] = seconds
        until = self._api.now() + seconds
        token = f"token of {pod['metadata']['uid']} for {','.join(spec.get('audiences') or ['api'])} until {until:.3f}"
        status = {"token": token, "expirationTimestamp": stamp(until)}
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {},
            "spec": spec,
            "status": status,
        }


def _default(obj: Obj, **values: Any) -> None:
    for name, value in values.items():
        if obj.get(name) is None:
            obj[name] = value


def _keep(held: Obj, news: Obj, name: str) -> None:
    if name in held:
        news[name] = copied(held[name])
    else:
        news.pop(name, None)


def _keep_quality(held: Obj, news: Obj) -> None:
    if held["status"].get("qosClass"):
        news.setdefault("status", {})["qosClass"] = held["status"]["qosClass"]


def _at(obj: Obj, path: tuple[str, ...]) -> Any:
    found: Any = obj
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _plain_data(secret: Obj) -> None:
    texts = secret.pop("stringData", None)
    if texts:
        import base64

        secret["data"] = (secret.get("data") or {}) | {
            key: base64.b64encode(text.encode()).decode() for key, text in texts.items()
        }


def _content(obj: Obj) -> tuple[Any, Any]:
    return obj.get("data"), obj.get("binaryData")


def _quality(spec: Obj) -> str:
    resources = [each["resources"] for each in spec["containers"]]
    named = [part.get(name) for part in resources for side in ("limits", "requests") for name in ("cpu", "memory")
             for part in [part.get(side) or {}]]  # fmt: skip
    if not any(named):
        return "BestEffort"
    return "Guaranteed" if all(named) and all(part.get("limits") == part.get("requests") for part in resources) else "Burstable"


def _counted(pod: Obj, name: str) -> int:
    """What a pod counts for in a quota of `pods` or `requests.<extended resource>`."""
    if name in {"pods", "count/pods"}:
        return 1
    resource = name.removeprefix("requests.")
    asked = (each.get("resources") or {} for each in pod["spec"]["containers"])
    return sum(int((each.get("requests") or {}).get(resource, 0)) for each in asked) if resource == GPU else 0
