"""What a pod asks for as a whole, by the rules of Kubernetes (KEP-753 sidecars, KEP-2837 pod-level resources, overhead)."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import accelerators, podresources

GPU = "nvidia.com/gpu"


def holder(name: str = "cpu", request: str | None = None, limit: str | None = None, **more: Any) -> dict[str, Any]:
    parts = {"requests": {name: request} if request else {}, "limits": {name: limit} if limit else {}}
    return {"resources": parts, **more}


def pod(*containers: dict[str, Any], inits: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), "initContainers": list(inits), **more}}


SIDECAR = {"restartPolicy": "Always"}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": (pod({}), "0"),
    "containers add up": (pod(holder(request="1"), holder(request="500m", limit="2")), "1.5"),
    "a limit without a request is one": (pod(holder(limit="2")), "2"),
    "a larger init container": (pod(holder(request="1"), inits=(holder(request="3"),)), "3"),
    "sidecar, init container and container": (
        pod(holder(request="1"), inits=(holder(request="1", **SIDECAR), holder(request="3"))), "4",
    ),
    "an init container before the sidecar": (
        pod(holder(request="1"), inits=(holder(request="3"), holder(request="1", **SIDECAR))), "3",
    ),
    "the pod as a whole": (pod(holder(request="4"), **holder(request="2", limit="3")), "2"),
    "overhead": (pod(holder(request="1", limit="1"), overhead={"cpu": "250m"}), "1.25"),
    "the pod as a whole and overhead": (pod({}, **holder(request="2"), overhead={"cpu": "1"}), "3"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_pod_asks_for_as_a_whole(name: str) -> None:
    made, requested = CASES[name]
    assert podresources.requested(made, "cpu") == Decimal(requested)


def test_devices_are_asked_for_by_containers_and_by_overhead() -> None:
    made = pod(holder(GPU, limit="1"), **holder(GPU, request="5"), overhead={GPU: "2"})
    assert accelerators.requested(made, [GPU, "amd.com/gpu"]) == {GPU: 3}
    assert accelerators.extended(made) == {GPU}


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(_ANYTHING, st.sampled_from(["spec", "containers", "resources", "requests", "value"]))
def test_whatever_stands_in_a_pod_ends_as_a_number(garbage: Any, where: str) -> None:
    value: Any = garbage
    for name, wrap in (("value", "cpu"), ("requests", "requests"), ("resources", "resources")):
        value = garbage if where == name else value
        value = {wrap: value}
    made = {"spec": garbage} if where == "spec" else pod(value) if where != "containers" else {"spec": {"containers": garbage}}
    assert podresources.requested(made, "cpu") >= 0
