"""Units and features from the labels of nodes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.slurm import config
from controller.slurm.answers.view import SlurmNode, SlurmView
from controller.slurm.config.topology import features_of, grown, place, topology_of, unit_of, units_in
from controller.slurm.decide.sites import Site, sites
from controller.slurm.lease.fleet import Worker
from controller.slurm.spec import NodeSetSpec, TopologySpec
from tests.kit.slurmsamples import slurm_spec

NVL, RACK, CLIQUE = "bulkhead.dev/nvlink-domain", "bulkhead.dev/rack", "nvidia.com/gpu.clique"


def node(**labels: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n", "labels": labels}}


@pytest.mark.parametrize(
    ("labels", "unit"),
    [
        ({NVL: "domain-1", RACK: "r1"}, "nvlink-domain-1"),
        ({CLIQUE: "AB12.3", RACK: "r1"}, "nvlink-ab12-3"),
        ({NVL: "nvlink-0"}, "nvlink-0"),
        ({RACK: "r1"}, "rack-r1"),
        ({RACK: "rack-7"}, "rack-7"),
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


def test_a_unit_that_was_written_once_stays_written() -> None:
    """A slurmctld does not start while a saved node stands in a unit that it cannot find."""
    before = grown(topology_of("tree", [node(**{RACK: "r1"}), node(**{RACK: "r2"})]), ())
    written = config.topology_yaml(slurm_spec(topology=before))
    assert units_in(written) >= set(before.units)
    after = grown(topology_of("block", [node(**{RACK: "r3"})]), units_in(written))
    assert after == TopologySpec("block", ("rack-r1", "rack-r2", "rack-r3"))
    assert place(after, node(**{RACK: "r3"})) == "platform:rack-r3"


@given(st.text(), st.lists(st.text(max_size=20), max_size=5))
def test_whatever_a_tenant_wrote_into_the_file_it_can_be_written_again(text: str, units: list[str]) -> None:
    lines = "".join(f"\n      - switch: {unit}" for unit in units)
    topology = grown(topology_of("tree", [node(**{RACK: "r1"})]), units_in(text + lines))
    written = config.topology_yaml(slurm_spec(topology=topology))
    assert units_in(written) >= set(topology.units)
    assert written.count("- switch: ") == len(topology.units) + 2


def test_a_worker_is_placed_when_its_node_is_known() -> None:
    topology = TopologySpec("block", ("rack-r1",))
    assert place(topology, None) == "platform:unplaced"
    assert place(topology, node(**{RACK: "r1"})) == "platform:rack-r1"
    assert place(topology, node(**{RACK: "r9"})) == "platform:unplaced"
    assert place(TopologySpec("flat"), node(**{RACK: "r1"})) == ""


def test_features_of_a_node() -> None:
    own = {"nvidia.com/gpu.product": "NVIDIA-H100 80GB", "topology.kubernetes.io/zone": "a", RACK: "r1"}
    assert features_of(node(**own), gpus=False) == ("zone-a", "rack-r1")
    assert features_of(node(**own)) == ("gpu-nvidia-h100-80gb", "zone-a", "rack-r1")


@given(st.lists(st.dictionaries(st.sampled_from([NVL, RACK, CLIQUE]), st.text(max_size=80)), max_size=6))
def test_whatever_the_labels_the_file_can_be_written(pool: list[dict[str, str]]) -> None:
    topology = topology_of("tree", [node(**labels) for labels in pool])
    written = config.topology_yaml(slurm_spec(topology=topology))
    assert written.count("- switch: ") == len(topology.units) + 2


def record(name: str, *states: str, topology: str = "platform:unplaced", features: tuple[str, ...] = ("gpu",)) -> SlurmNode:
    return SlurmNode(name=name, states=frozenset(states or ("IDLE",)), topology=topology, features=frozenset(features))


HOST = {"metadata": {"name": "host-1", "labels": {RACK: "r1", "nvidia.com/gpu.product": "H100"}}}
RIGHT = ("gpu", "nvlink", "gpu-h100", "rack-r1")


@pytest.mark.parametrize(
    ("records", "moved"),
    [
        pytest.param([record("gpu-0")], ["gpu-0"], id="just registered"),
        pytest.param([record("gpu-0", topology="platform:rack-r1", features=RIGHT)], [], id="says it already"),
        pytest.param([record("gpu-0", features=RIGHT)], ["gpu-0"], id="in another place"),
        pytest.param([record("gpu-0", topology="platform:rack-r1")], ["gpu-0"], id="other features"),
        pytest.param([record("gpu-0", "DOWN")], [], id="not there"),
        pytest.param([record("gpu-7"), record("other-0")], [], id="foreign"),
    ],
)
def test_which_records_are_corrected(records: list[SlurmNode], moved: list[str]) -> None:
    node_set = NodeSetSpec("gpu", 1, 1, 1, 1, 1024, gpus=1, features=("nvlink",))
    spec = slurm_spec(node_sets=(node_set, NodeSetSpec("rack-r9", 1, 1, 1, 1, 1024)), topology=topology_of("tree", [HOST]))
    view = SlurmView(nodes=tuple(records), jobs=(), pending=0, running=0)
    workers = [Worker("gpu-0", "gpu", 0, host_node="host-1"), Worker("gpu-1", "gpu", 1)]
    found = sites(spec, view, workers, [HOST])
    assert [site.node for site in found] == moved
    for site in found:
        assert site == Site("gpu-0", "platform:rack-r1", RIGHT)


def test_a_label_lets_no_worker_into_another_node_sets_partition() -> None:
    sets = (NodeSetSpec("gpu", 1, 1, 1, 1, 1024), NodeSetSpec("rack-r1", 1, 1, 1, 1, 1024))
    spec = slurm_spec(node_sets=sets, topology=TopologySpec("flat"))
    view = SlurmView(nodes=(record("gpu-0", features=()),), jobs=(), pending=0, running=0)
    (site,) = sites(spec, view, [Worker("gpu-0", "gpu", 0, host_node="host-1")], [HOST])
    assert site == Site("gpu-0", "", ("gpu",))
