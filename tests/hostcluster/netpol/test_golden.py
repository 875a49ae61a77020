"""Policies and the rules they become, as data: cases/<name>.yaml holds the objects, cases/<name>.nft the text."""

from pathlib import Path

import pytest

from tests.hostcluster.netpol.compiling import compile_rules
from tests.kit import yamlfiles
from workstation.hostcluster.netpol.cluster import cluster_from, pod_from
from workstation.hostcluster.netpol.render import render

CASES = Path(__file__).parent / "cases"


def compiled(name: str) -> str:
    given = yamlfiles.load(CASES / f"{name}.yaml")
    return render(compile_rules(cluster_from(given["pods"], given["namespaces"], given["policies"]), "node"))


@pytest.mark.parametrize("name", sorted(path.stem for path in CASES.glob("*.yaml")))
def test_rules_of(name: str) -> None:
    assert compiled(name) == (CASES / f"{name}.nft").read_text()


@pytest.mark.parametrize(
    "changed",
    [
        {"spec": {"hostNetwork": True, "containers": []}},
        {"status": {"phase": "Succeeded", "podIP": "10.244.0.2"}},
        {"status": {"phase": "Pending"}},
        {"status": {"phase": "Running", "podIP": "fd00::1"}},
    ],
    ids=["host network", "ended", "no address yet", "IPv6"],
)
def test_pods_without_packets_of_their_own(changed: dict[str, object]) -> None:
    pod = {
        "metadata": {"namespace": "red", "name": "p"},
        "spec": {"containers": []},
        "status": {"phase": "Running", "podIP": "10.244.0.2"},
    }
    assert pod_from(pod) is not None
    assert pod_from(pod | changed) is None
