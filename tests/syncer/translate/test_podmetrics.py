"""What the host measured, as the tenant's API tells it: golden pairs, and hostile figures."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from syncer.translate.kinds.podmetrics import node_metrics, pod_metrics

VIRTUAL: dict[str, Any] = {
    "metadata": {"namespace": "train", "name": "web", "labels": {"app": "web"}},
    "spec": {"nodeName": "n1", "containers": [{"name": "main"}], "initContainers": [{"name": "proxy"}]},
}


def measured(*containers: tuple[str, str, str], at: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {
        "metadata": {"name": "web-x-train", "namespace": "bh-a-work", "labels": {"secret": "of the host"}},
        "timestamp": at,
        "window": "15s",
        "containers": [{"name": name, "usage": {"cpu": cpu, "memory": memory}} for name, cpu, memory in containers],
    }


def test_item_87_a_pods_figures_have_its_own_name_labels_and_containers() -> None:
    host = measured(("main", "1500u", "2Mi"), ("proxy", "1m", "1024Ki"), ("of-the-platform", "5", "1Gi"))
    assert pod_metrics(VIRTUAL, host) == {
        "metadata": {
            "name": "web",
            "namespace": "train",
            "labels": {"app": "web"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "15s",
        "containers": [
            {"name": "main", "usage": {"cpu": "1500000n", "memory": "2048Ki"}},
            {"name": "proxy", "usage": {"cpu": "1000000n", "memory": "1024Ki"}},
        ],
    }


def test_item_87_a_nodes_figures_are_the_sum_of_the_tenants_own_pods() -> None:
    pods = [
        pod_metrics(VIRTUAL, measured(("main", "250m", "1Mi"), at="2026-01-01T00:00:15Z")),
        pod_metrics(VIRTUAL, measured(("main", "500m", "2Mi"), ("proxy", "250m", "1Mi"))),
    ]
    assert node_metrics("n1", pods) == {
        "metadata": {"name": "n1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "15s",
        "usage": {"cpu": "1000000000n", "memory": "4096Ki"},
    }


@given(st.text(max_size=40), st.text(max_size=40))
def test_figures_that_are_none_count_as_not_measured(cpu: str, memory: str) -> None:
    found = pod_metrics(VIRTUAL, measured(("main", cpu, memory)))
    usage = found["containers"][0]["usage"]
    assert all(int(value[:-1] if value.endswith("n") else value[:-2]) >= 0 for value in usage.values())
    assert node_metrics("n1", [found])["usage"].keys() == {"cpu", "memory"}
