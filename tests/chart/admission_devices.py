"""What a syncer might do to have devices that its tenant does not pay for: by resources, claims, variables and mounts."""

from typing import Any

from tests.chart import admission_ledger as ledger
from tests.chart.admission_objects import (
    CLOSED,
    EVERY_TAINT,
    GPU,
    GRANTED,
    Change,
    choice,
    debugger,
    devices,
    mirrored,
    pod,
    selectors,
)

DEVICE_MOUNTS = "/var/run/nvidia-container-devices"
SCRATCH = [{"name": "v", "emptyDir": {}}]

REFUSED: dict[str, dict[str, Any]] = {
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
    "a CDI annotation": pod()
    | {
        "metadata": pod()["metadata"] | {"annotations": {"cdi.k8s.io/x": "nvidia.com/gpu=all"}},
    },
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
}
ALLOWED: dict[str, dict[str, Any]] = {
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
    "a pod with a GPU and capabilities": pod({"env": [{"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}]}),
    "credentials by a prefix": pod({"envFrom": [{"prefix": "AWS_", "secretRef": {"name": "mine"}}, *GRANTED]}),
    "settings with keys": mirrored("ConfigMap", data={"VISIBLE_DEVICES": "all", "NVIDIA_API_KEY": "k"}),
    "a secret with keys": mirrored("Secret", data={"ACCESS_KEY_ID": "YQ=="}),
}
CHANGES: dict[str, Change] = {
    "an ephemeral container with devices by a mount": Change(
        pod(volumes=SCRATCH),
        {"spec": {"ephemeralContainers": [debugger(volumeMounts=[{"name": "v", "mountPath": f"{DEVICE_MOUNTS}/all"}])]}},
        "ephemeralcontainers",
    ),
}
