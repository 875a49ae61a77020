"""The Node objects of simulated GPU nodes, and the labels that every GPU node carries. Pure.

NVLink domains are filled one after another. Two domains share a rack, and racks alternate between two zones.
"""

from typing import Any

SIMULATED_LABEL = "bulkhead.dev/simulated"
TAINT_KEY = "kwok.x-k8s.io/node"
PRODUCT = "NVIDIA-H100-80GB-HBM3"
_DOMAINS_PER_RACK = 2
_ZONES = ("zone-a", "zone-b")


def gpu_labels(count: int, domain: int) -> dict[str, str]:
    """The labels of a node with `count` GPUs in the NVLink domain `domain`."""
    rack = domain // _DOMAINS_PER_RACK
    return {
        "nvidia.com/gpu.product": PRODUCT,
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.clique": f"00000000-0000-4000-8000-{domain:012d}.0",
        "bulkhead.dev/nvlink-domain": f"nvlink-{domain}",
        "bulkhead.dev/rack": f"rack-{rack}",
        "topology.kubernetes.io/zone": _ZONES[rack % len(_ZONES)],
        "topology.kubernetes.io/region": "local",
    }


def real_node_labels(count: int, number: int) -> dict[str, str]:
    """The labels of the real node with this number, from 1: each is a rack and an NVLink domain, and zones alternate."""
    if number == 1:
        return gpu_labels(count, 0)
    return {
        **gpu_labels(count, 0),
        "nvidia.com/gpu.clique": f"00000000-0000-4000-9000-{number:012d}.0",
        "bulkhead.dev/nvlink-domain": f"nvlink-host-{number}",
        "bulkhead.dev/rack": f"rack-host-{number}",
        "topology.kubernetes.io/zone": _ZONES[(number - 1) % len(_ZONES)],
    }


def node_name(index: int) -> str:
    """The name of a simulated node: `gpu-sim-0` and so on."""
    return f"gpu-sim-{index}"


def simulated_node(index: int, gpus: int, domain_size: int) -> dict[str, Any]:
    """A simulated node without its status; domain 0 belongs to the first real node."""
    name = node_name(index)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "simulated",
        SIMULATED_LABEL: "true",
        **gpu_labels(gpus, 1 + index // max(1, domain_size)),
    }
    metadata = {"name": name, "labels": labels, "annotations": {TAINT_KEY: "fake"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": [{"key": TAINT_KEY, "value": "fake", "effect": "NoSchedule"}]},
    }


def node_status(index: int, gpus: int) -> dict[str, Any]:
    """What the node offers: kwok keeps these values and adds the conditions."""
    resources = {"cpu": "96", "memory": "1Ti", "ephemeral-storage": "2Ti", "pods": "250", "nvidia.com/gpu": str(gpus)}
    name = node_name(index)
    # Addresses of the benchmarking range (RFC 2544): nothing answers there, and nothing else uses them.
    addresses = [
        {"type": "InternalIP", "address": f"198.18.{index // 250}.{index % 250 + 1}"},
        {"type": "Hostname", "address": name},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"capacity": resources, "allocatable": resources, "addresses": addresses},
    }
