"""The simulated nodes as objects."""

import re

import yaml

from workstation.hostcluster.kwok import nodes


def test_a_simulated_node_is_marked_tainted_and_labelled() -> None:
    node = nodes.simulated_node(3, 8, 2)
    assert node["metadata"]["name"] == "gpu-sim-3"
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert node["spec"]["taints"] == [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]
    labels = node["metadata"]["labels"]
    assert labels["bulkhead.dev/simulated"] == "true"
    assert labels["nvidia.com/gpu.count"] == "8"
    assert labels["kubernetes.io/hostname"] == "gpu-sim-3"


def test_label_values_are_legal() -> None:
    for index in range(300):
        labels = nodes.simulated_node(index, 8, 4)["metadata"]["labels"]
        assert all(re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value) for value in labels.values())


def test_domains_fill_one_after_another_and_never_share_the_real_nodes() -> None:
    domains = [nodes.simulated_node(index, 8, 2)["metadata"]["labels"]["bulkhead.dev/nvlink-domain"] for index in range(6)]
    assert domains == ["nvlink-1", "nvlink-1", "nvlink-2", "nvlink-2", "nvlink-3", "nvlink-3"]
    assert nodes.gpu_labels(8, 0)["bulkhead.dev/nvlink-domain"] == "nvlink-0"


def test_a_domain_lies_in_one_rack_and_a_rack_in_one_zone() -> None:
    seen: dict[str, str] = {}
    for domain in range(16):
        labels = nodes.gpu_labels(8, domain)
        assert (
            seen.setdefault(labels["bulkhead.dev/rack"], labels["topology.kubernetes.io/zone"])
            == labels["topology.kubernetes.io/zone"]
        )


def test_addresses_differ() -> None:
    addresses = {nodes.node_status(index, 8)["status"]["addresses"][0]["address"] for index in range(1000)}
    assert len(addresses) == 1000


def test_stages_cover_nodes_and_pods() -> None:
    from importlib import resources

    text = (resources.files("workstation.hostcluster.kwok") / "stages.yaml").read_text()
    names = [one["metadata"]["name"] for one in yaml.safe_load_all(text)]
    assert names == ["node-ready", "pod-running", "job-pod-succeeded", "pod-gone"]
