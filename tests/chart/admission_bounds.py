"""What a syncer might write: where a pod may run and how it ends, what marks an object, what it claims and what it changes."""

from typing import Any

from tests.chart import admission_pulls as pulls
from tests.chart.admission_objects import CLOSED, Change, claim, debugger, ingress, mirrored, pod, service, snapshot

QUEUE = {"kueue.x-k8s.io/queue-name": "of-team-b"}


def marked(obj: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """An object with more in its metadata; labels and annotations beside what is there."""
    meta = dict(obj["metadata"])
    for key, value in metadata.items():
        meta[key] = meta.get(key, {}) | value if isinstance(value, dict) else value
    return obj | {"metadata": meta}


def near(kind: str, term: dict[str, Any], *, weighted: bool = False) -> dict[str, Any]:
    """A pod with an affinity to other pods, or from them."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}} | term
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    must = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(affinity={kind: wish if weighted else must})


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def asking_for(values: int) -> dict[str, Any]:
    return {"key": "zone", "operator": "In", "values": [f"z{number}" for number in range(values)]}


def at(node: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def tolerating(**toleration: Any) -> dict[str, Any]:
    return pod(tolerations=[toleration])


def ending(seconds: int) -> dict[str, Any]:
    """A probe that gives its container so long to end."""
    return {"exec": {"command": ["x"]}, "terminationGracePeriodSeconds": seconds}


def ready(**condition: Any) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "example.org/warm", "status": "True"} | condition]}}


REFUSED: dict[str, dict[str, Any]] = {
    # Taints: every pod of team-a tolerates those of GPUs, and may tolerate what TEAM_A lists.
    "another taint": tolerating(key="others", operator="Exists", effect="NoSchedule"),
    "every taint of a kind": tolerating(operator="Exists", effect="NoSchedule"),
    "another value of a taint": tolerating(key="pool", value="b", effect="NoSchedule"),
    "every value of a taint": tolerating(key="pool", operator="Exists", effect="NoSchedule"),
    "every effect of a taint": tolerating(key="pool", value="a"),
    "another effect of a taint": tolerating(key="nvidia.com/gpu", operator="Exists", effect="NoExecute"),
    "a taint for longer": tolerating(key="drained", operator="Exists", effect="NoExecute", tolerationSeconds=61),
    "a taint for ever": tolerating(key="drained", operator="Exists", effect="NoExecute"),
    # Other pods.
    "away from all namespaces": near("podAntiAffinity", {"namespaceSelector": {}}),
    "away from another tenant": near("podAntiAffinity", {"namespaces": ["bh-team-b-work"]}),
    "near all namespaces": near("podAffinity", {"namespaceSelector": {}}, weighted=True),
    "near another tenant": near("podAffinity", {"namespaces": ["bh-team-b-work"]}),
    "very many nodes": pod(
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [asking_for(20)] * 10}] * 15}}}
    ),
    "very many nodes that it likes": pod(
        affinity={"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [asking_for(3100)]}}]}}
    ),
    "very many terms about pods": pod(
        affinity={
            "podAntiAffinity": {REQUIRED: [{"topologyKey": f"k{number}", "labelSelector": {}} for number in range(17)]},
            "podAffinity": {
                PREFERRED: [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": f"k{number}", "labelSelector": {}}} for number in range(16)
                ]
            },
        }
    ),
    "very many pods": near("podAntiAffinity", {"labelSelector": {"matchExpressions": [asking_for(3100)]}}),
    "very much spreading": pod(
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchExpressions": [asking_for(3100)]},
            }
        ]
    ),
    # Names.
    "the node's resolver": pod(dnsPolicy="Default", dnsConfig=None),
    "the host's DNS": pod(dnsPolicy="ClusterFirst", dnsConfig=None),
    "a subdomain of the host": pod(subdomain="web"),
    "a full name of the host": pod(setHostnameAsFQDN=True),
    # Its end.
    "no time to end": pod(terminationGracePeriodSeconds=0),
    "too long an end": pod(terminationGracePeriodSeconds=3601),
    "too long an end by a probe": pod({"livenessProbe": ending(3601)}),
    "too long an end by a probe of a sidecar": pod(
        initContainers=[
            {"name": "i", "image": "x", "envFrom": CLOSED, "restartPolicy": "Always", "startupProbe": ending(10**9)}
        ]
    ),
    # Others' business.
    "a gate of a queue": pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]),
    "a readiness gate of the kubelet's": pod(readinessGates=[{"conditionType": "Ready"}]),
    "a queue": marked(pod(), labels=QUEUE),
    "a queue by annotation": marked(pod(), annotations=QUEUE),
    "a part of the plane": marked(pod(), labels={"bulkhead.dev/component": "plane"}),
    "an unknown marker": marked(pod(), labels={"bulkhead.dev/anything": "x"}),
    "an identity of a node's": marked(pod(), labels={"aadpodidbinding": "of-the-host"}),
    "another manager": marked(pod(), labels={"app.kubernetes.io/managed-by": "Helm"}),
    "a zone of its choice": marked(pod(), labels={"topology.kubernetes.io/zone": "a"}),
    "an endpoint's label": marked(pod(), labels={"kubernetes.io/service-name": "x"}),
    "a network": marked(pod(), annotations={"k8s.v1.cni.cncf.io/networks": "of-the-host"}),
    "an annotation without a domain": marked(mirrored("ConfigMap"), annotations={"anything": "x"}),
    "a storage class in the old way": marked(claim(), annotations={"volume.beta.kubernetes.io/storage-class": "fast"}),
    "a name in another owner's DNS": marked(service(), annotations={"external-dns.alpha.kubernetes.io/hostname": "x.org"}),
    "settings with another's finalizer": marked(mirrored("ConfigMap"), finalizers=["example.org/hold"]),
    # What it claims.
    "an address of another tenant": service(clusterIP="10.112.8.20"),
    "a class of Ingress that is not offered": ingress("team-a.x.org", ingressClassName="internal"),
    "a domain that its class does not offer": ingress("team-a.z.org"),
    "a snapshot of a class that others are offered": snapshot(volumeSnapshotClassName="weekly"),
}
ALLOWED: dict[str, dict[str, Any]] = {
    "as many nodes as a tenant's own marks may come to": pod(
        affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [at(f"n{number}") for number in range(1000)]}}}
    ),
    "the tolerations of the class": pod(
        tolerations=[
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "nvidia.com/gpu", "value": "mine", "effect": "NoSchedule"},
            {"key": "pool", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
            {"key": "drained", "value": "x", "effect": "NoExecute", "tolerationSeconds": 60},
            {"key": "drained", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            {"key": "any", "operator": "Exists"},
            {"key": "any", "effect": "NoExecute"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists"},
        ]
    ),
    "away from its own": near("podAntiAffinity", {"labelSelector": {"matchLabels": {"bulkhead.dev/tenant": "team-a"}}}),
    "near its own": near("podAffinity", {"namespaces": []}, weighted=True),
    "gates of its own": pod(schedulingGates=[{"name": "wait"}, {"name": "tenant.bulkhead.dev/0123"}, {"name": "helm.sh/x"}]),
    "a readiness gate": pod(readinessGates=[{"conditionType": "example.org/warm"}]),
    "a second to end": pod(terminationGracePeriodSeconds=1),
    "an hour to end": pod(terminationGracePeriodSeconds=3600),
    "an hour to end by a probe": pod({"livenessProbe": ending(3600), "readinessProbe": {"exec": {"command": ["x"]}}}),
    "memory for the pod": pod(resources={"limits": {"memory": "1Gi"}, "requests": {"cpu": "1"}}),
    "labels of a tenant": marked(
        pod(),
        labels={
            "app": "web",
            "batch.kubernetes.io/job-name": "x",
            "tenant.bulkhead.dev/0123": "x",
            "namespace.bulkhead.dev/0123": "x",
            "bulkhead.dev/namespace-hash": "x",
            "bulkhead.dev/ingress-isolated": "true",
            "bulkhead.dev/drained": "true",
        },
        annotations={
            "bulkhead.dev/applied": "{}",
            "label.bulkhead.dev/0123": "x",
            "annotation.bulkhead.dev/0123": "x",
            "kubectl.kubernetes.io/default-container": "main",
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        },
    ),
    "a zone of a claim": marked(claim(), labels={"topology.kubernetes.io/zone": "a"}),
    "what the installation's webhooks set": marked(
        pod(schedulingGates=[{"name": "mesh.example.org/ready"}]),
        labels={"mesh.example.org/injected": "true"},
        annotations={"mesh.example.org/status": "x"},
    ),
    "a service without an address": service(clusterIP="None"),
    "a service without a selector": service(selector=None),
}
CHANGES: dict[str, Change] = {
    "a finalizer on a pod": Change(pod(), {"metadata": {"finalizers": ["example.org/hold"]}}),
    "a finalizer on a secret": Change(mirrored("Secret"), {"metadata": {"finalizers": ["example.org/hold"]}}),
    "another's finalizer": Change(
        marked(pod(), finalizers=["example.org/scrub"]), {"metadata": {"finalizers": None}}, by_others=True
    ),
    "a queue later": Change(pod(), {"metadata": {"labels": QUEUE}}),
    "another queue": Change(
        marked(pod(), labels=QUEUE), {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "b"}}}, by_others=True
    ),
    "a queue by annotation later": Change(pod(), {"metadata": {"annotations": QUEUE}}),
    "without its queue": Change(
        marked(pod(), labels=QUEUE), {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": None}}}, by_others=True
    ),
    "without its queue by annotation": Change(
        marked(pod(), annotations=QUEUE), {"metadata": {"annotations": {"kueue.x-k8s.io/queue-name": None}}}, by_others=True
    ),
    "a queue by its status": Change(pod(), {"metadata": {"labels": QUEUE}}, "status"),
    "a part of the plane by its status": Change(pod(), {"metadata": {"labels": {"bulkhead.dev/component": "plane"}}}, "status"),
    "past a queue's gate": Change(
        pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]), {"spec": {"schedulingGates": None}}, by_others=True
    ),
    "very many nodes that it likes later": Change(
        pod(schedulingGates=[{"name": "wait"}]),
        {
            "spec": {
                "affinity": {
                    "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [asking_for(3100)]}}]}
                }
            }
        },
    ),
    "another taint later": Change(pod(), {"spec": {"tolerations": [{"key": "others", "operator": "Exists"}]}}),
    "ended by its word": Change(pod(), {"status": {"phase": "Succeeded"}}, "status"),
    "an address by its word": Change(pod(), {"status": {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}}, "status"),
    "a node's promise": Change(pod(), {"status": {"nominatedNodeName": "node-of-b"}}, "status"),
    "containers by its word": Change(
        pod(),
        {
            "status": {
                "containerStatuses": [
                    {"name": "main", "image": "x", "imageID": "x", "ready": True, "restartCount": 0, "state": {"running": {}}}
                ]
            }
        },
        "status",
    ),
    "a start by its word": Change(pod(), {"status": {"startTime": "2026-01-01T00:00:00Z"}}, "status"),
    "less memory by its word": Change(
        pod(), {"status": {"resize": "Deferred", "allocatedResources": {"memory": "1Mi"}}}, "status"
    ),
    "a condition of the host": Change(
        pod(readinessGates=[{"conditionType": "example.org/warm"}]), ready(type="PodScheduled", status="True"), "status"
    ),
    "a condition of an unknown type": Change(pod(), ready(), "status"),
    "without another's condition": Change(
        pod(), {"status": {"conditions": None}}, "status", by_others=True, status=ready(type="example.org/of-the-host")
    ),
}
CHANGES_ALLOWED: dict[str, Change] = {
    **pulls.CHANGES_ALLOWED,
    "a readiness gate": Change(pod(readinessGates=[{"conditionType": "example.org/warm"}]), ready(), "status"),
    "a label": Change(pod(), {"metadata": {"labels": {"app": "db"}}}),
    "a label beside a queue": Change(marked(pod(), labels=QUEUE), {"metadata": {"labels": {"app": "db"}}}, by_others=True),
    "a gate less": Change(
        pod(schedulingGates=[{"name": "a"}, {"name": "tenant.bulkhead.dev/0123"}]),
        {"spec": {"schedulingGates": [{"name": "a"}]}},
    ),
    "a gate less beside a queue's": Change(
        pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}, {"name": "a"}]),
        {"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}},
        by_others=True,
    ),
    "a label of what was made under other rules": Change(
        pod(
            dnsPolicy="Default",
            dnsConfig=None,
            subdomain="x",
            terminationGracePeriodSeconds=0,
            nodeSelector=None,
            priorityClassName="of-the-host",
            runtimeClassName="of-the-host",
            tolerations=[{"operator": "Exists"}],
            schedulingGates=[{"name": "kueue.x-k8s.io/admission"}],
        ),
        {"metadata": {"labels": {"app": "db"}}},
        by_others=True,
    ),
    "some nodes that it likes later": Change(
        pod(schedulingGates=[{"name": "wait"}]),
        {
            "spec": {
                "affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [asking_for(20)]}}]}}
            }
        },
    ),
    "a taint more": Change(pod(), {"spec": {"tolerations": [{"key": "any", "operator": "Exists"}]}}),
    "more memory": Change(
        pod({"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"memory": "1Mi"}}}),
        {"spec": {"containers": [{"name": "main", "resources": {"requests": {"memory": "2Mi"}}}]}},
        "resize",
    ),
    "an ephemeral container": Change(pod(), {"spec": {"ephemeralContainers": [debugger()]}}, "ephemeralcontainers"),
    "another's finalizer stays": Change(
        marked(pod(), finalizers=["example.org/scrub"]), {"metadata": {"labels": {"app": "db"}}}, by_others=True
    ),
}
