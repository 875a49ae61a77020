"""Objects as a syncer writes them for tenant team-a on the host, let through by the policies; samples change one thing each."""

from dataclasses import dataclass
from typing import Any

from bulkhead.kube.objects import Resource
from bulkhead.kube.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    INGRESSES,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    SECRETS,
    SERVICES,
    VOLUME_SNAPSHOTS,
)
from controller.plane.policyfacts import policy_facts
from controller.plane.sections import PodBound
from tests.kit.tenantsamples import plane_spec

TEAM_A = plane_spec(
    nodes={
        "selector": (("bulkhead.dev/pool", "shared"), ("disk", "fast")),
        "tolerations": ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},),
        "allowed_tolerations": (
            {"key": "pool", "value": "a", "effect": "NoSchedule"},
            {"key": "drained", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
            {"key": "any", "operator": "Exists"},
        ),
    },
    isolation={
        "allowed_runtime_classes": ("sandboxed", "slim"),
        "seccomp_profiles": ("audit.json", "tools/trace.json"),
        "apparmor_profiles": ("tools",),
    },
    offers={
        "priority_classes": ("batch", "interactive"),
        "storage_classes": ("ordinary", "fast"),
        "ingress_classes": ("public",),
        "ingress_domains": ("x.org",),
        "snapshot_classes": ("daily",),
    },
    quota={
        "device_classes": (("nic.example.com", 8), ("gpu.example.com", "nvidia.com/gpu")),
        "extended_resources": ("rdma/hca", "hugepages-2Mi"),
        "pod_bounds": (PodBound("memory", "64Gi", "10"), PodBound("cpu", "8")),
        "most_per_claim": "100Gi",
    },
    ledger={"gated_resources": ("rdma/hca",), "gated_gangs": True},
)
FACTS = policy_facts(TEAM_A)
NODE_ADDRESS = TEAM_A.shim_address
PRIORITY_CLASSES = ("bulkhead-workload", "batch", "interactive", "of-the-host")
RUNTIME_CLASSES = ("sandboxed", "slim", "of-the-host")
MARKS = {
    "app.kubernetes.io/managed-by": "bulkhead",
    "bulkhead.dev/managed-by": "syncer",
    "bulkhead.dev/tenant": "team-a",
    "bulkhead.dev/virtual-uid": "0000",
}
SLICE_LABELS = {
    "endpointslice.kubernetes.io/managed-by": "syncer.bulkhead.dev",
    "kubernetes.io/service-name": "x",
}
ANNOTATIONS = {"bulkhead.dev/tenant-uid": "1", "bulkhead.dev/virtual-name": "web"}


def mirrored(kind: str, name: str = "x", *, labels: dict[str, str] | None = None, **content: Any) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": "bh-team-a-work",
        "labels": MARKS if labels is None else labels,
        "annotations": ANNOTATIONS,
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": meta} | content


CLOSED = [{"configMapRef": {"name": "devices-v1"}}]
GRANTED = [{"configMapRef": {"name": "devices-v1-nvidia"}}]
GPU = {"limits": {"nvidia.com/gpu": "1"}}


def pod(container: dict[str, Any] | None = None, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    base = {"name": "main", "image": "example.org/i:1", "resources": GPU, "envFrom": GRANTED}
    content: dict[str, Any] = {
        "serviceAccountName": "workload",
        "automountServiceAccountToken": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "priorityClassName": "bulkhead-workload",
        "nodeSelector": dict(TEAM_A.nodes.selector),
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": [TEAM_A.dns_address]},
        "containers": [base | (container or {})],
    }
    return mirrored("Pod", labels=labels, spec=content | spec)


def sized(memory: str, limit: str | None = None, cpu: str = "1") -> dict[str, Any]:
    limits = {"memory": limit} if limit else {}
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": limits}, "envFrom": CLOSED}


def beside(name: str, memory: str, **more: Any) -> dict[str, Any]:
    """Another container."""
    return {"name": name, "image": "example.org/i:1"} | sized(memory) | more


def of_node(name: str) -> dict[str, Any]:
    return {"seccompProfile": {"type": "Localhost", "localhostProfile": name}}


def in_armour(name: str) -> dict[str, Any]:
    return {"type": "Localhost", "localhostProfile": name}


def network_policy(**rules: Any) -> dict[str, Any]:
    policy = mirrored("NetworkPolicy", spec={"podSelector": {}, "policyTypes": ["Ingress", "Egress"]} | rules)
    return policy | {"apiVersion": "networking.k8s.io/v1"}


def of_many(peers: int) -> dict[str, Any]:
    """A network policy that names so many sets of pods, by three labels each."""
    rules = [{"from": [{"podSelector": {"matchLabels": {"a": "b", "c": str(peer), "e": "f"}}} for peer in range(peers)]}]
    return network_policy(ingress=rules)


def at_ports(number: int) -> dict[str, Any]:
    """A network policy that names so many ports."""
    return network_policy(egress=[{"to": [{"podSelector": {}}], "ports": [{"port": port + 1} for port in range(number)]}])


ADDRESS = TEAM_A.address(20)


def service(**spec: Any) -> dict[str, Any]:
    content = {"ports": [{"port": 80}], "selector": {"bulkhead.dev/tenant": "team-a"}, "clusterIP": ADDRESS}
    return mirrored("Service", spec=content | spec)


def service_ports(number: int) -> list[dict[str, Any]]:
    return [{"name": f"p{port}", "port": port} for port in range(1, number + 1)]


def node_ports(*ports: int, **spec: Any) -> dict[str, Any]:
    content = {
        "ports": [{"name": f"p{port}", "port": port} for port in ports or (30080,)],
        "selector": {"bulkhead.dev/tenant": "team-a"},
        "externalIPs": [NODE_ADDRESS],
        "clusterIP": ADDRESS,
        "externalTrafficPolicy": "Local",
    }
    return mirrored("Service", spec=content | spec)


def ingress(*hosts: str, name: str = "x", **spec: Any) -> dict[str, Any]:
    path = {"path": "/a", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}
    rules = [{"host": host, "http": {"paths": [path]}} for host in hosts]
    content = {"ingressClassName": "public"} | ({"rules": rules} if rules else {}) | spec
    return mirrored("Ingress", name, spec=content) | {"apiVersion": "networking.k8s.io/v1"}


def certificates(number: int) -> list[dict[str, Any]]:
    """Certificates for so many hosts, a hundred each."""
    hosts = [f"h{index}.team-a.x.org" for index in range(number)]
    return [{"hosts": hosts[start : start + 100]} for start in range(0, number, 100)]


def of_tokens(data: dict[str, str]) -> dict[str, Any]:
    """The Secret with a pod's tokens."""
    made = mirrored("Secret", data=data)
    return made | {"metadata": made["metadata"] | {"annotations": ANNOTATIONS | {"bulkhead.dev/virtual-kind": "PodToken"}}}


def with_path(**fields: Any) -> dict[str, Any]:
    made = ingress("team-a.x.org")
    made["spec"]["rules"][0]["http"]["paths"][0] |= fields
    return made


def with_paths(number: int) -> dict[str, Any]:
    made = ingress("team-a.x.org", "b.team-a.x.org")
    first, second = (rule["http"] for rule in made["spec"]["rules"])
    second["paths"] = [first["paths"][0] | {"path": f"/{path}"} for path in range(number - 1)]
    return made


def pod_group(**spec: Any) -> dict[str, Any]:
    content = {"schedulingPolicy": {"gang": {"minCount": 3}}} | spec
    return mirrored("PodGroup", spec=content) | {"apiVersion": "scheduling.k8s.io/v1alpha2"}


def snapshot(name: str = "x", *, source: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    content = {"source": source or {"persistentVolumeClaimName": "data"}, "volumeSnapshotClassName": "daily"} | spec
    return mirrored("VolumeSnapshot", name, spec=content) | {"apiVersion": "snapshot.storage.k8s.io/v1"}


def claim(**spec: Any) -> dict[str, Any]:
    size = {"requests": {"storage": "1Gi"}}
    content = {"accessModes": ["ReadWriteOnce"], "resources": size, "storageClassName": "ordinary"} | spec
    return mirrored("PersistentVolumeClaim", spec=content)


def of_size(size: str) -> dict[str, Any]:
    return claim(resources={"requests": {"storage": size}})


def devices(*requests: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A claim: what a request says is its only way, or with `firstAvailable` its ways."""
    named = [
        {"name": f"r{index}"}
        | (request if "firstAvailable" in request else {"exactly": {"deviceClassName": "gpu.example.com"} | request})
        for index, request in enumerate(requests)
    ]
    return mirrored("ResourceClaim", spec={"devices": {"requests": named} | spec}) | {"apiVersion": "resource.k8s.io/v1"}


def choice(*ways: dict[str, Any]) -> dict[str, Any]:
    named = [{"name": f"w{index}", "deviceClassName": "gpu.example.com"} | way for index, way in enumerate(ways)]
    return {"firstAvailable": named}


def selectors(number: int, characters: int = 30) -> dict[str, Any]:
    """So many selectors of a request, of so many characters each."""
    return {"selectors": [{"cel": {"expression": f"device.driver == '{'x' * (characters - 19)}'"}}] * number}


def debugger(**fields: Any) -> dict[str, Any]:
    return {"name": "debugger", "image": "debug:1", "envFrom": CLOSED} | fields


@dataclass(frozen=True, slots=True)
class Change:
    """A patch of something that is there."""

    made: dict[str, Any]
    patch: dict[str, Any]
    subresource: str | None = None
    by_others: bool = False  # created or labelled by another user before
    status: dict[str, Any] | None = None  # the status that another client has set in between


EVERY_TAINT = [{"operator": "Exists"}]


def endpoints(*addresses: str, **content: Any) -> dict[str, Any]:
    """A slice of hand-made endpoints, each of one pod."""
    target = {"kind": "Pod", "namespace": "bh-team-a-work", "name": "p", "uid": "1"}
    made = mirrored("EndpointSlice", labels=MARKS | SLICE_LABELS) | {"apiVersion": "discovery.k8s.io/v1"}
    listed = [{"addresses": [address], "targetRef": target} for address in addresses]
    return made | {"addressType": "IPv4", "endpoints": listed, "ports": [{"port": 80}]} | content


def with_endpoint(**fields: Any) -> dict[str, Any]:
    made = endpoints("10.244.0.5")
    made["endpoints"][0] |= fields
    return made


STAYING: dict[str, Any] = {"matchExpressions": [{"key": "bulkhead.dev/drained", "operator": "DoesNotExist"}]}


def budget(**spec: Any) -> dict[str, Any]:
    labels = {"bulkhead.dev/tenant": "team-a", "bulkhead.dev/namespace-hash": "h"}
    content = {
        "minAvailable": 1, "selector": {"matchLabels": labels, **STAYING}, "unhealthyPodEvictionPolicy": "AlwaysAllow",
    } | spec  # fmt: skip
    content = {key: value for key, value in content.items() if value is not None}
    return mirrored("PodDisruptionBudget", spec=content) | {"apiVersion": "policy/v1"}


def by_values(number: int) -> dict[str, Any]:
    """A selector of a budget that names so many values beside what the platform adds."""
    many = {"key": "app", "operator": "In", "values": [f"a{index}" for index in range(number)]}
    return {
        "matchLabels": {"bulkhead.dev/tenant": "team-a", "bulkhead.dev/namespace-hash": "h"},
        "matchExpressions": [*STAYING["matchExpressions"], many],
    }


KINDS = {
    "Pod": PODS,
    "Service": SERVICES,
    "ConfigMap": CONFIG_MAPS,
    "Secret": SECRETS,
    "NetworkPolicy": NETWORK_POLICIES,
    "ResourceClaim": RESOURCE_CLAIMS,
    "Ingress": INGRESSES,
    "PodGroup": POD_GROUPS,
    "EndpointSlice": ENDPOINT_SLICES,
    "Endpoints": Resource("", "v1", "endpoints", "Endpoints", True),
    "PodDisruptionBudget": POD_DISRUPTION_BUDGETS,
    "PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS,
    "VolumeSnapshot": VOLUME_SNAPSHOTS,
}
