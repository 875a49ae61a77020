"""What a syncer might write on the host, its own checks out of the way: what the policies refuse, and what they let through."""

from typing import Any

from tests.chart import admission_devices as devices
from tests.chart import admission_ledger as ledger
from tests.chart import admission_pulls as pulls
from tests.chart import admission_reach as reach
from tests.chart.admission_objects import (
    CLOSED,
    MARKS,
    TEAM_A,
    Change,
    beside,
    claim,
    debugger,
    in_armour,
    mirrored,
    of_node,
    of_size,
    of_tokens,
    pod,
    pod_group,
    sized,
    snapshot,
)

GATED = pod(readinessGates=[{"conditionType": "example.org/gate"}])
SHUT = {"type": "example.org/gate", "status": "False"}

REFUSED: dict[str, dict[str, Any]] = {
    "too much memory": pod(sized("65Gi")),
    "too much memory in two containers": pod(containers=[beside("a", "40Gi"), beside("b", "40Gi")]),
    "too much memory in an init container": pod(sized("1Gi"), initContainers=[beside("i", "65Gi")]),
    "too much memory beside a sidecar": pod(sized("40Gi"), initContainers=[beside("i", "40Gi", restartPolicy="Always")]),
    "too much of the pod as a whole": pod(sized("1Gi"), resources={"requests": {"cpu": "9"}}),
    "a limit far above its request": pod(sized("1Gi", "11Gi")),
    "a limit of the pod far above its request": pod(
        sized("1Gi"), resources={"requests": {"memory": "1Gi"}, "limits": {"memory": "11Gi"}}
    ),
    "no marker": pod(labels={}),
    "another tenant's marker": pod(labels=MARKS | {"bulkhead.dev/tenant": "team-b"}),
    "host network": pod(hostNetwork=True),
    "host processes": pod(hostPID=True),
    "host IPC": pod(hostIPC=True),
    "privileged": pod({"securityContext": {"privileged": True}}),
    "privileged init container": pod(
        initContainers=[{"name": "i", "image": "x", "envFrom": CLOSED, "securityContext": {"privileged": True}}]
    ),
    "unmasked proc": pod({"securityContext": {"procMount": "Unmasked"}}, hostUsers=False),
    "no seccomp profile": pod(securityContext={}),
    "no seccomp profile but a container's": pod({"securityContext": of_node("audit.json")}, securityContext={}),
    "no filter of system calls": pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
    "a container without a filter": pod({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}),
    "an init container without a filter": pod(
        initContainers=[
            {"name": "i", "image": "x", "envFrom": CLOSED, "securityContext": {"seccompProfile": {"type": "Unconfined"}}}
        ]
    ),
    "a profile that is not offered": pod(securityContext=of_node("trace.json")),
    "a container's profile that is not offered": pod({"securityContext": of_node("tools")}),
    "two profiles in one name": pod({"securityContext": of_node("audit.json,tools/trace.json")}),
    "an AppArmor profile that is not offered": pod({"securityContext": {"appArmorProfile": in_armour("audit.json")}}),
    "no AppArmor": pod({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
    **pulls.REFUSED,
    **devices.REFUSED,
    **reach.REFUSED,
    **ledger.REFUSED,
    "host path": pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
    "inline CSI": pod(volumes=[{"name": "v", "csi": {"driver": "d"}}]),
    "NFS": pod(volumes=[{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
    "a token of the host": pod(volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]),
    "a token of the host by itself": pod(automountServiceAccountToken=True),
    "the syncer's account": pod(serviceAccountName="syncer"),
    "a node of its choice": pod(nodeName="node-of-b"),
    "another scheduler": pod(schedulerName="mine"),
    "a system priority": pod(priorityClassName="system-node-critical"),
    "a priority of the host's": pod(priorityClassName="of-the-host"),
    "no priority class": pod(priorityClassName=None),
    "a runtime class of the host's": pod(runtimeClassName="of-the-host"),
    "no pool": pod(nodeSelector=None),
    "half of the pool": pod(nodeSelector={"disk": "fast"}),
    "another pool": pod(nodeSelector={"bulkhead.dev/pool": "others", "disk": "fast"}),
    "every taint tolerated": pod(tolerations=[{"operator": "Exists"}]),
    "control plane taint": pod(tolerations=[{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]),
    "the platform's address of the API": mirrored("ConfigMap", "kubernetes-environment"),
    "a pod with another's finalizer": pod() | {"metadata": pod()["metadata"] | {"finalizers": ["example.org/hold"]}},
    "a port of the node": pod({"ports": [{"containerPort": 1, "hostPort": 6443}]}),
    "a group of a workload of the host": pod_group(
        podGroupTemplateRef={"workload": {"workloadName": "of-the-host", "podGroupTemplateName": "t"}}
    ),
    "a group with claims": pod_group(resourceClaims=[{"name": "a", "resourceClaimName": "c"}]),
    "a group before others": pod_group(priorityClassName="of-the-host"),
    "a group that goes whole": pod_group(disruptionMode="PodGroup"),
    "a group with another's finalizer": pod_group()
    | {"metadata": pod_group()["metadata"] | {"finalizers": ["example.org/hold"]}},
    "another tenant's group": pod_group() | {"metadata": pod_group()["metadata"] | {"namespace": "bh-team-b-work"}},
    "another's snapshot content": snapshot(source={"volumeSnapshotContentName": "content"}),
    "a snapshot of a class that is not offered": snapshot(volumeSnapshotClassName="of-the-host"),
    "a snapshot of the host's default class": snapshot() | {"spec": {"source": {"persistentVolumeClaimName": "data"}}},
    "a snapshot without a marker": snapshot() | {"metadata": {"name": "x", "namespace": "bh-team-a-work"}},
    "another's volume": claim(volumeName="of-somebody"),
    "a shared volume's claim": claim() | {"metadata": claim()["metadata"] | {"name": "shared.rw.x"}},
    "what is shared read-only": pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "shared.ro.x"}}]),
    "a claim of a class that is not offered": claim(storageClassName="of-the-host"),
    "a claim of the host's default class": claim(storageClassName=None),
    "a claim of a volume made by hand": claim(storageClassName=""),
    "a claim with attributes of the host": claim(volumeAttributesClassName="gold"),
    "too large a claim": of_size("100.5Gi"),
    "any volume with a label": claim(selector={"matchLabels": {"of": "somebody"}}),
    "a claim with data of another namespace": claim(
        dataSourceRef={"kind": "PersistentVolumeClaim", "name": "a", "namespace": "bh-team-b-work"}
    ),
    "a claim with data from anywhere": claim(dataSourceRef={"apiGroup": "example.org", "kind": "Copier", "name": "a"}),
    "very many tokens": of_tokens({f"token-{number}": "YQ==" for number in range(17)}),
    "a very long token": of_tokens({"token-a": "YWFh" * 2732}),
    "a secret that the host fills": mirrored("Secret", type="bootstrap.kubernetes.io/token"),
    "an owner that is not a pod": mirrored("ConfigMap")
    | {
        "metadata": mirrored("ConfigMap")["metadata"]
        | {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "1"}]},
    },
    "another namespace": mirrored("ConfigMap")
    | {"metadata": mirrored("ConfigMap")["metadata"] | {"namespace": "bh-team-b-work"}},
    "the plane's namespace": mirrored("ConfigMap")
    | {"metadata": mirrored("ConfigMap")["metadata"] | {"namespace": "bh-team-a"}},
    # Pods and Secrets meet a policy of their own, which says the same again.
    "a pod in another namespace": pod() | {"metadata": pod()["metadata"] | {"namespace": "bh-team-b-work"}},
    "a pod in the plane's namespace": pod() | {"metadata": pod()["metadata"] | {"namespace": "bh-team-a"}},
    "a secret without a marker": mirrored("Secret", labels={}),
    "another tenant's secret": mirrored("Secret", labels=MARKS | {"bulkhead.dev/tenant": "team-b"}),
    "a secret in another namespace": mirrored("Secret")
    | {"metadata": mirrored("Secret")["metadata"] | {"namespace": "bh-team-b-work"}},
    "a secret in the plane's namespace": mirrored("Secret")
    | {"metadata": mirrored("Secret")["metadata"] | {"namespace": "bh-team-a"}},
}
ALLOWED: dict[str, dict[str, Any]] = {
    **pulls.ALLOWED,
    **devices.ALLOWED,
    **reach.ALLOWED,
    "as much memory as may be": pod(sized("64Gi", "64Gi", cpu="8")),
    "init containers one after the other": pod(sized("40Gi"), initContainers=[beside("i", "40Gi"), beside("j", "40Gi")]),
    "a limit ten times its request": pod(sized("1Gi", "10Gi")),
    "no limit": pod(sized("1Gi")),
    "a limit of a container under one of the pod as a whole": pod(
        sized("0", "10Gi"), resources={"requests": {"memory": "1Gi"}, "limits": {"memory": "10Gi"}}
    ),
    "less of the pod as a whole": pod(sized("1Gi"), resources={"requests": {"cpu": "8", "memory": "64Gi"}}),
    "an ordinary pod": pod(
        volumes=[
            {"name": "v", "configMap": {"name": "c"}},
            {"name": "w", "projected": {"sources": [{"secret": {"name": "s"}}]}},
        ],
    ),
    "a profile that is offered": pod(
        {"securityContext": of_node("tools/trace.json") | {"appArmorProfile": in_armour("tools")}},
        securityContext=of_node("audit.json"),
    ),
    "a user namespace": pod({"securityContext": {"runAsUser": 0}}, hostUsers=False),
    **ledger.ALLOWED,
    "a pod of the class's choices": pod(
        priorityClassName="batch",
        runtimeClassName="slim",
        nodeSelector=dict(TEAM_A.nodes.selector) | {"gpu": "big"},
    ),
    "a pod group": pod_group(schedulingConstraints={"topology": [{"key": "bulkhead.dev/rack"}]}, disruptionMode="Pod"),
    "a pod of a group": pod(schedulingGroup={"podGroupName": "x"}),
    "a snapshot of a claim": snapshot(),
    "a claim": claim(),
    "a pod with what is shared": pod(
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "shared.ro.x", "readOnly": True}}]
    ),
    "as large a claim as may be": of_size("102400Mi"),
    "a claim of another class": claim(storageClassName="fast"),
    "a claim with data from a snapshot": claim(
        dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "a"}
    ),
    "a claim with data from a claim": claim(dataSource={"kind": "PersistentVolumeClaim", "name": "a"}),
    "a config map": mirrored("ConfigMap"),
    "a secret": mirrored("Secret"),
    "many tokens": of_tokens({f"token-{number}": "YWFh" * 2730 for number in range(16)}),
    "a large secret that is not of tokens": mirrored("Secret", data={"a": "YWFh" * 2731}),
    "the plane's identity": mirrored("ConfigMap", labels={})
    | {"metadata": {"name": "plane-identity", "namespace": "bh-team-a"}},
    "the placed pods": mirrored("ConfigMap", labels={}) | {"metadata": {"name": "placed-pods", "namespace": "bh-team-a"}},
    "the pods placed of late": mirrored("ConfigMap", labels={})
    | {"metadata": {"name": "placed-pods-recent", "namespace": "bh-team-a"}},
}
CHANGES: dict[str, Change] = {
    **pulls.CHANGES,
    **devices.CHANGES,
    **reach.CHANGES,
    **ledger.CHANGES,
    "another record": Change(pod(), {"metadata": {"annotations": {"bulkhead.dev/virtual-name": "other"}}}),
    "another record of a secret": Change(
        mirrored("Secret"), {"metadata": {"annotations": {"bulkhead.dev/virtual-name": "other"}}}
    ),
    "another record of settings": Change(
        mirrored("ConfigMap"), {"metadata": {"annotations": {"bulkhead.dev/virtual-name": "other"}}}
    ),
    "another's pod": Change(pod(labels={}), {"metadata": {"labels": MARKS}}, by_others=True),
    "another's secret": Change(mirrored("Secret", labels={}), {"metadata": {"labels": MARKS}}, by_others=True),
    "another's settings": Change(mirrored("ConfigMap", labels={}), {"metadata": {"labels": MARKS}}, by_others=True),
    "a privileged ephemeral container": Change(
        pod(),
        {"spec": {"ephemeralContainers": [debugger(securityContext={"privileged": True})]}},
        "ephemeralcontainers",
    ),
    "an ephemeral container with unmasked proc": Change(
        pod(hostUsers=False),
        {"spec": {"ephemeralContainers": [debugger(securityContext={"procMount": "Unmasked"})]}},
        "ephemeralcontainers",
    ),
    "a status of a snapshot": Change(snapshot(), {"status": {"readyToUse": True}}, "status"),
    "a later change to another's volume": Change(claim(), {"spec": {"volumeName": "of-somebody"}}),
    "another class of a snapshot": Change(snapshot(), {"spec": {"volumeSnapshotClassName": "weekly"}}),
    "very many tokens now": Change(
        of_tokens({"token-a": "YQ=="}), {"data": {f"token-{number}": "YQ==" for number in range(16)}}
    ),
    "a long word why a gate is shut": Change(GATED, {"status": {"conditions": [SHUT | {"reason": "r" * 129}]}}, "status"),
    "a long text why a gate is shut": Change(GATED, {"status": {"conditions": [SHUT | {"message": "é" * 513}]}}, "status"),
    "an address of another pod": Change(pod(), {"status": {"podIP": "10.244.7.7", "podIPs": [{"ip": "10.244.7.7"}]}}, "status"),
    "another address beside none": Change(pod(), {"status": {"podIPs": [{"ip": "fd00::1"}]}}, "status"),
    "an address of a node": Change(
        pod(), {"status": {"hostIP": "172.31.255.9", "hostIPs": [{"ip": "172.31.255.9"}]}}, "status"
    ),
    "an end": Change(pod(), {"status": {"phase": "Succeeded"}}, "status"),
    "a reason": Change(pod(), {"status": {"reason": "Evicted", "message": "x"}}, "status"),
    "a beginning": Change(pod(), {"status": {"startTime": "2026-01-01T00:00:00Z"}}, "status"),
    "a pod that is ready": Change(pod(), {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status"),
    "a pod that is in the way": Change(
        pod(), {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}}, "status"
    ),
}
