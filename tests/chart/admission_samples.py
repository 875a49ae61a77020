"""What a syncer might write on the host, its own checks out of the way: what the policies refuse, and what they let through."""

from typing import Any

from tests.chart import admission_ledger as ledger
from tests.chart import admission_pulls as pulls
from tests.chart.admission_objects import (
    ANNOTATIONS,
    CLOSED,
    EVERY_TAINT,
    GPU,
    GRANTED,
    MARKS,
    NODE_ADDRESS,
    SLICE_LABELS,
    TEAM_A,
    Change,
    at_ports,
    beside,
    budget,
    by_values,
    certificates,
    choice,
    claim,
    debugger,
    devices,
    endpoints,
    in_armour,
    ingress,
    mirrored,
    network_policy,
    node_ports,
    of_many,
    of_node,
    of_size,
    of_tokens,
    pod,
    pod_group,
    selectors,
    service,
    service_ports,
    sized,
    snapshot,
    with_endpoint,
    with_path,
    with_paths,
)

DEVICE_MOUNTS = "/var/run/nvidia-container-devices"
SCRATCH = [{"name": "v", "emptyDir": {}}]
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
    "a resource it may not have": pod({"resources": GPU | {"limits": GPU["limits"] | {"kvm/kvm": "1"}}}),
    "a resource that its quota does not count": pod({"resources": GPU | {"limits": GPU["limits"] | {"rdma/of-others": "1"}}}),
    "huge pages that its quota does not count": pod(resources={"limits": {"hugepages-1Gi": "1Gi", "memory": "2Gi"}}),
    "devices of a class by the name of a resource": pod(
        {"resources": {"limits": GPU["limits"] | {"deviceclass.resource.kubernetes.io/gpu.example.com": "8"}}}
    ),
    "devices by its image": pod({"envFrom": []}),
    "devices of a ConfigMap of its own": pod({"envFrom": [*CLOSED, {"configMapRef": {"name": "mine"}}]}),
    "devices of a Secret": pod({"envFrom": [{"secretRef": {"name": "devices-v1"}}]}),
    "devices where the ConfigMap is missing": pod({"envFrom": [{"configMapRef": {"name": "devices-v1", "optional": True}}]}),
    "devices under other names": pod({"envFrom": [CLOSED[0] | {"prefix": "X_"}]}),
    "devices that it does not ask for": pod({"resources": {}}),
    "devices of which it asks for none": pod({"resources": {"limits": {"nvidia.com/gpu": "0"}}}),
    "devices of another vendor": pod({"envFrom": [{"configMapRef": {"name": "devices-v1-amd"}}]}),
    "devices by a mount": pod({"volumeMounts": [{"name": "v", "mountPath": f"{DEVICE_MOUNTS}/all"}]}, volumes=SCRATCH),
    "devices by a mount with another spelling": pod(
        {"volumeMounts": [{"name": "v", "mountPath": "//var//run/x/../nvidia-container-devices"}]}, volumes=SCRATCH
    ),
    "devices by a mount of an init container": pod(
        initContainers=[
            {"name": "i", "image": "x", "envFrom": CLOSED, "volumeMounts": [{"name": "v", "mountPath": f"{DEVICE_MOUNTS}/0"}]}
        ],
        volumes=SCRATCH,
    ),
    "devices for an init container": pod(initContainers=[{"name": "i", "image": "x"}]),
    "devices that an init container does not ask for": pod(initContainers=[{"name": "i", "image": "x", "envFrom": GRANTED}]),
    "devices by a variable": pod({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}),
    "devices by a variable with a space": pod({"env": [{"name": "NVIDIA_IMEX_CHANNELS ", "value": "0"}]}),
    "devices by the beginning of a variable": pod({"env": [{"name": "HABANA_VISIBLE_DEVICES_X", "value": "all"}]}),
    "devices by a prefix": pod({"envFrom": [{"prefix": "NVIDIA_", "configMapRef": {"name": "mine"}}, *GRANTED]}),
    "devices by a prefix with a space": pod({"envFrom": [{"prefix": " NVIDIA_VIS", "secretRef": {"name": "mine"}}, *GRANTED]}),
    "devices by the beginning of a prefix": pod(
        {"envFrom": [{"prefix": "HABANA_VISIBLE_DEVICES_X", "secretRef": {"name": "mine"}}, *GRANTED]}
    ),
    "devices by a prefix of another vendor": pod({"envFrom": [{"prefix": "AWS", "secretRef": {"name": "mine"}}, *GRANTED]}),
    "a display by a prefix": pod({"envFrom": [{"prefix": "NVIDIA_DRIVER_", "secretRef": {"name": "mine"}}, *GRANTED]}),
    "devices by a prefix of an init container": pod(
        initContainers=[{"name": "i", "image": "x", "envFrom": [{"prefix": "N", "configMapRef": {"name": "mine"}}, *CLOSED]}]
    ),
    "devices by a key": mirrored("ConfigMap", data={"a": "b", "NVIDIA_VISIBLE_DEVICES": "all"}),
    "devices by a binary key": mirrored("ConfigMap", binaryData={"DOCKER_RESOURCE_GPU": "YWxs"}),
    "a display by a key": mirrored("ConfigMap", data={"NVIDIA_DRIVER_CAPABILITIES": "all"}),
    "devices by what a prefix leaves": mirrored("ConfigMap", data={"NEURON_VISIBLE_DEVICES": "ALL"}),
    "devices by a secret key": mirrored("Secret", data={"a": "YQ==", "NVIDIA_VISIBLE_DEVICES": "YWxs"}),
    "devices by the beginning of a secret key": mirrored("Secret", data={"HABANA_VISIBLE_DEVICES_X": "YWxs"}),
    "a display": pod({"env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,display"}]}),
    "capabilities from elsewhere": pod(
        {"env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}
    ),
    "the platform's variables": mirrored("ConfigMap", "devices-v1", data={"NVIDIA_VISIBLE_DEVICES": "all"}),
    "the platform's variables for a vendor": mirrored("ConfigMap", "devices-v1-amd", data={"AMD_VISIBLE_DEVICES": "all"}),
    "the platform's address of the API": mirrored("ConfigMap", "kubernetes-environment"),
    "a pod with another's finalizer": pod() | {"metadata": pod()["metadata"] | {"finalizers": ["example.org/hold"]}},
    "a port of the node": pod({"ports": [{"containerPort": 1, "hostPort": 6443}]}),
    "a CDI annotation": pod()
    | {
        "metadata": pod()["metadata"] | {"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=all"}},
    },
    "node port": service(type="NodePort"),
    "load balancer": service(type="LoadBalancer"),
    "external name": mirrored("Service", spec={"type": "ExternalName", "externalName": "kubernetes.default.svc"}),
    "a name of its own": service(externalName="kubernetes.default.svc"),
    "external address": service(externalIPs=["192.0.2.1"]),
    "another tenant's address": node_ports(externalIPs=["10.112.8.11"]),
    "an address beside the own": node_ports(externalIPs=[NODE_ADDRESS, "192.0.2.1"]),
    "no port of a node": node_ports(443),
    "the kubelet's port": node_ports(30080, 10250),
    "a port before the range": node_ports(29999),
    "a port beyond the range": node_ports(32768),
    "callers behind the node's address": node_ports(externalTrafficPolicy="Cluster"),
    "callers behind the node's address by default": node_ports(externalTrafficPolicy=None),
    "node ports of no pods": node_ports(selector=None),
    "node ports of another tenant's pods": node_ports(selector={"bulkhead.dev/tenant": "team-b"}),
    "node ports that open a port": node_ports(type="NodePort"),
    "a port more than a Service has": service(ports=service_ports(251)),
    "another tenant's pods": service(selector={"bulkhead.dev/tenant": "team-b"}),
    "a policy for everyone": network_policy(ingress=[{}]),
    "a policy for address blocks": network_policy(egress=[{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]),
    "a policy for another tenant": network_policy(ingress=[{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]),
    "a policy of very many pods": of_many(2001),
    "a policy of very many ports": at_ports(6001),
    "a policy for very many labels": network_policy(
        podSelector={"matchExpressions": [{"key": "a", "operator": "In", "values": [str(value) for value in range(6000)]}]}
    ),
    "a claim for devices of the host": devices({"deviceClassName": "of-the-host"}),
    "a claim for one of several": devices(choice({"deviceClassName": "of-the-host"})),
    "a claim that tells the driver": devices(config=[{"opaque": {"driver": "example.org", "parameters": {"a": 1}}}]),
    "a claim for a class that the tenant's own does not offer": devices({"deviceClassName": "of-others"}),
    "a claim with such a class as alternative": devices(choice({}, {"deviceClassName": "of-others"})),
    "a claim for all devices": devices({"allocationMode": "All"}),
    "a claim for all devices as alternative": devices(choice({}, {"allocationMode": "All"})),
    "a claim for more devices than there can be": devices({"count": 33}),
    "a claim for many devices": devices(*({"count": 16} for _ in range(3))),
    "a claim for many devices by alternatives": devices(*[choice({"count": 1}, {"count": 11})] * 3),
    "a claim for as many devices as it can say": devices(*({"count": 1024} for _ in range(32))),
    "a claim with many selectors": devices(selectors(32), selectors(32), selectors(1)),
    "a claim with many selectors by alternatives": devices(selectors(32), choice(selectors(17), selectors(16))),
    "a claim with long selectors": devices(selectors(1, 10_000), selectors(1, 6_385)),
    "a claim with long selectors by alternatives": devices(
        selectors(1, 10_000), choice(selectors(1, 6_000), selectors(1, 385))
    ),
    "a claim for devices with taints": devices({"tolerations": EVERY_TAINT}),
    "a claim for devices with taints as alternative": devices(choice({"tolerations": EVERY_TAINT}, {})),
    "a claim from a template of the host": pod(resourceClaims=[{"name": "a", "resourceClaimTemplateName": "t"}]),
    "another tenant's host": ingress("team-a.x.org", "team-b.x.org"),
    "every tenant's host": ingress("*.x.org"),
    "a host that ends alike": ingress("xteam-a.x.org"),
    "a host of no domain": ingress("team-a.y.org"),
    "a rule for every host": ingress("team-a.x.org") | {"spec": ingress("team-a.x.org")["spec"] | {"rules": [{}]}},
    "a default backend": ingress("team-a.x.org", defaultBackend={"service": {"name": "web", "port": {"number": 80}}}),
    "nothing but a default backend": ingress(defaultBackend={"service": {"name": "web", "port": {"number": 80}}}),
    "a resource as backend": with_path(backend={"resource": {"kind": "Secret", "name": "x"}}),
    "a path with a statement": with_path(path="/a;}$x", pathType="ImplementationSpecific"),
    "a certificate for every host": ingress("team-a.x.org", tls=[{"secretName": "c"}]),
    "a certificate for another tenant": ingress("team-a.x.org", tls=[{"hosts": ["team-b.x.org"]}]),
    "no class": ingress("team-a.x.org", ingressClassName=None),
    "a snippet": ingress("team-a.x.org")
    | {
        "metadata": ingress()["metadata"] | {"annotations": ANNOTATIONS | {"nginx.ingress.kubernetes.io/server-snippet": "x"}},
    },
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
    "endpoints that the host's controller takes for its own": endpoints("10.244.0.5")
    | {
        "metadata": endpoints()["metadata"]
        | {"labels": MARKS | SLICE_LABELS | {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}}
    },
    "endpoints of no Service": endpoints("10.244.0.5")
    | {
        "metadata": endpoints()["metadata"]
        | {"labels": MARKS | {key: value for key, value in SLICE_LABELS.items() if key != "kubernetes.io/service-name"}}
    },
    "endpoints by name": endpoints(addressType="FQDN"),
    "an endpoint without a pod": with_endpoint(targetRef=None),
    "an endpoint of another tenant's pod": with_endpoint(
        targetRef={"kind": "Pod", "namespace": "bh-team-b-work", "name": "p", "uid": "1"}
    ),
    "an endpoint that is a node": with_endpoint(targetRef={"kind": "Node", "name": "n", "uid": "1"}),
    "an endpoint of a pod that may be any": with_endpoint(
        targetRef={"kind": "Pod", "namespace": "bh-team-a-work", "name": "p"}
    ),
    "an endpoint of two addresses": with_endpoint(addresses=["10.244.0.5", "10.244.0.6"]),
    "an endpoint that is a node's address": endpoints("172.31.255.1"),
    "an endpoint that is the host's API": endpoints("10.96.0.1"),
    "an endpoint that is a tenant's Service": endpoints("10.112.8.1"),
    "endpoints at every port": endpoints("10.244.0.5", ports=[{"name": "every"}]),
    "endpoints at very many ports": endpoints(
        "10.244.0.5", ports=[{"name": f"p{port}", "port": port} for port in range(1, 102)]
    ),
    "endpoints in their older form": mirrored(
        "Endpoints", subsets=[{"addresses": [{"ip": "10.244.0.5"}], "ports": [{"port": 80}]}]
    ),
    "a budget in per cent": budget(minAvailable="100%"),
    "a budget of what may go": budget(minAvailable=None, maxUnavailable=0),
    "a budget without a number": budget(minAvailable=None),
    "a budget beyond all numbers": budget(minAvailable=100001),
    "a budget of every pod": budget(selector={}),
    "a budget of another tenant's pods": budget(
        selector={"matchLabels": {"bulkhead.dev/tenant": "team-b", "bulkhead.dev/namespace-hash": "h"}}
    ),
    "a budget of pods of every namespace": budget(selector={"matchLabels": {"bulkhead.dev/tenant": "team-a"}}),
    "a budget that outlasts every drain": budget(
        selector={"matchLabels": {"bulkhead.dev/tenant": "team-a", "bulkhead.dev/namespace-hash": "h"}}
    ),
    "a budget of drained pods": budget(
        selector={
            "matchLabels": {"bulkhead.dev/tenant": "team-a", "bulkhead.dev/namespace-hash": "h"},
            "matchExpressions": [{"key": "bulkhead.dev/drained", "operator": "Exists"}],
        }
    ),
    "a budget that keeps what is not healthy": budget(unhealthyPodEvictionPolicy="IfHealthyBudget"),
    "a budget that does not say what is not healthy": budget(unhealthyPodEvictionPolicy=None),
    "a budget by very many labels": budget(selector=by_values(100)),
    "an ingress of very many paths": with_paths(201),
    "an ingress with a very long path": with_path(path="/" + 512 * "a"),
    "certificates for very many hosts": ingress("team-a.x.org", tls=certificates(201)),
}
ALLOWED: dict[str, dict[str, Any]] = {
    **pulls.ALLOWED,
    "endpoints": endpoints("10.244.0.5", "10.244.128.9"),
    "endpoints of six": endpoints("fd00:10:244::5", addressType="IPv6", ports=[]),
    "no endpoints": endpoints() | {"endpoints": None, "ports": None},
    "a budget": budget(minAvailable=0),
    "a budget by many labels": budget(selector=by_values(99)),
    "an ingress of many paths": with_paths(200),
    "an ingress with a long path": with_path(path="/" + 511 * "a"),
    "certificates for many hosts": ingress("team-a.x.org", tls=certificates(200)),
    "a budget of nothing": budget(selector=None),
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
    "a pod without devices": pod(
        {
            "resources": {},
            "envFrom": [{"configMapRef": {"name": "mine"}}, *CLOSED],
            "env": [{"name": "NVIDIA_API_KEY", "value": "k"}],
        },
        initContainers=[{"name": "i", "image": "x", "envFrom": CLOSED}],
    ),
    "a claim for devices": devices({"count": 16}, {"deviceClassName": "nic.example.com"}, choice({"count": 15}, {"count": 2})),
    "a claim with as many selectors as it may have": devices(selectors(32), choice(selectors(20), selectors(12))),
    "a claim with as long selectors as it may have": devices(
        selectors(1, 10_000), choice(selectors(1, 6_000), selectors(1, 384))
    ),
    "a pod with a network device": pod(
        {"resources": {"limits": {"rdma/hca": "1", "hugepages-2Mi": "4Mi", "memory": "1Gi"}}, "envFrom": CLOSED},
        resources={"limits": {"hugepages-2Mi": "4Mi", "memory": "2Gi"}},
        schedulingGates=ledger.GATED,
    ),
    **ledger.ALLOWED,
    "a pod with a GPU and capabilities": pod({"env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}]}),
    "a pod of the class's choices": pod(
        priorityClassName="batch",
        runtimeClassName="slim",
        nodeSelector=dict(TEAM_A.nodes.selector) | {"gpu": "big"},
    ),
    "credentials by a prefix": pod({"envFrom": [{"prefix": "AWS_", "secretRef": {"name": "mine"}}, *GRANTED]}),
    "settings with keys": mirrored("ConfigMap", data={"VISIBLE_DEVICES": "all", "NVIDIA_API_KEY": "k"}),
    "a secret with keys": mirrored("Secret", data={"ACCESS_KEY_ID": "YQ=="}),
    "a service": service(),
    "a service with as many ports as one has": service(ports=service_ports(250)),
    "node ports": node_ports(30000, 32767),
    "an ingress": ingress("team-a.x.org", "a.b.team-a.x.org", "*.team-a.x.org", tls=[{"hosts": ["*.team-a.x.org"]}]),
    "a policy for its own pods": network_policy(ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "a"}}}]}]),
    "as large a policy as may be": of_many(2000),
    "a policy of as many ports as may be": at_ports(6000),
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
    "an ephemeral container with devices by a mount": Change(
        pod(volumes=SCRATCH),
        {"spec": {"ephemeralContainers": [debugger(volumeMounts=[{"name": "v", "mountPath": f"{DEVICE_MOUNTS}/all"}])]}},
        "ephemeralcontainers",
    ),
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
    "endpoints that lead to the host's API": Change(
        endpoints("10.244.0.5"), {"endpoints": endpoints("10.96.0.1")["endpoints"]}
    ),
    "endpoints that lose their pod": Change(endpoints("10.244.0.5"), {"endpoints": [{"addresses": ["10.244.0.5"]}]}),
    "endpoints at every port now": Change(endpoints("10.244.0.5"), {"ports": [{"name": "every"}]}),
    "endpoints that leave their Service": Change(
        endpoints("10.244.0.5"), {"metadata": {"labels": {"kubernetes.io/service-name": None}}}
    ),
    "endpoints that the host's controller adopts": Change(
        endpoints("10.244.0.5"), {"metadata": {"labels": {"endpointslice.kubernetes.io/managed-by": None}}}
    ),
    "very many tokens now": Change(
        of_tokens({"token-a": "YQ=="}), {"data": {f"token-{number}": "YQ==" for number in range(16)}}
    ),
    "a policy of very many pods now": Change(network_policy(), {"spec": {"ingress": of_many(2001)["spec"]["ingress"]}}),
    "a budget by very many labels now": Change(budget(), {"spec": {"selector": by_values(100)}}),
    "an ingress of very many paths now": Change(ingress("team-a.x.org"), {"spec": {"rules": with_paths(201)["spec"]["rules"]}}),
    "certificates for very many hosts now": Change(ingress("team-a.x.org"), {"spec": {"tls": certificates(201)}}),
    "a long word why a gate is shut": Change(GATED, {"status": {"conditions": [SHUT | {"reason": "r" * 129}]}}, "status"),
    "a long text why a gate is shut": Change(GATED, {"status": {"conditions": [SHUT | {"message": "é" * 513}]}}, "status"),
    "a budget in per cent now": Change(budget(), {"spec": {"minAvailable": "50%"}}),
    "a budget that lets none go": Change(budget(), {"status": {"disruptionsAllowed": 0}}, "status"),
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
