"""Units and features from the labels of nodes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.slurm import config
from controller.slurm.spec import TopologySpec
from controller.slurm.topology import features_of, place, topology_of, unit_of
from tests.controller.slurm.samples import slurm_spec

NVL, RACK, CLIQUE = "bulkhead.dev/nvlink-domain", "bulkhead.dev/rack", "nvidia.com/gpu.clique"


def node(**labels: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n", "labels": labels}}


@pytest.mark.parametrize(
    ("labels", "unit"),
    [
        ({NVL: "domain-1", RACK: "r1"}, "nvl-domain-1"),
        ({CLIQUE: "AB12.3", RACK: "r1"}, "nvl-ab12-3"),
        ({RACK: "r1"}, "rack-r1"),
        ({RACK: ""}, None),
        ({}, None),
    ],
)
def test_the_unit_of_a_node(labels: dict[str, str], unit: str | None) -> None:
    assert unit_of(node(**labels)) == unit


def test_the_topology_of_a_pool() -> None:
    pool = [node(**{RACK: "r2"}), node(**{RACK: "r1"}), node(**{RACK: "r2"}), node()]
    assert topology_of("tree", pool) == TopologySpec("tree", ("rack-r1", "rack-r2"))
    assert topology_of("flat", pool) == TopologySpec("flat")


def test_a_worker_is_placed_when_its_node_is_known() -> None:
    topology = TopologySpec("block", ("rack-r1",))
    assert place(topology, None) == "platform:unplaced"
    assert place(topology, node(**{RACK: "r1"})) == "platform:rack-r1"
    assert place(topology, node(**{RACK: "r9"})) == "platform:unplaced"
    assert place(TopologySpec("flat"), node(**{RACK: "r1"})) == ""


def test_features_of_a_node() -> None:
    own = {"nvidia.com/gpu.product": "NVIDIA-H100 80GB", "topology.kubernetes.io/zone": "a", RACK: "r1"}
    assert features_of(node(**own)) == ("gpu-nvidia-h100-80gb", "zone-a", "rack-r1")


@given(st.lists(st.dictionaries(st.sampled_from([NVL, RACK, CLIQUE]), st.text(max_size=80)), max_size=6))
def test_whatever_the_labels_the_file_can_be_written(pool: list[dict[str, str]]) -> None:
    topology = topology_of("tree", [node(**labels) for labels in pool])
    written = config.topology_yaml(slurm_spec(topology=topology))
    assert written.count("- switch: ") == len(topology.units) + 2
