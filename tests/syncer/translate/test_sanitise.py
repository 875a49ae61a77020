"""What the host's components say of a tenant's objects, without what they say of others."""

from dataclasses import replace

import pytest

from syncer.translate import sanitise
from syncer.translate.view import Toleration
from tests.kit import translationsamples as samples

POD = samples.pod() | {"kind": "Pod"}
VIEW = replace(
    samples.VIEW,
    enforced_tolerations=(Toleration("pool", "Exists"),),
    allowed_tolerations=(),
    node_taints={"gpu-a": ({"key": "mine", "value": "x", "effect": "NoSchedule"},)},
)
NODES = "0/9 nodes are available: "


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (NODES + "1 node(s) had untolerated taint {secret-team: x}.", NODES + "1 node(s) had untolerated taint(s)."),
        (
            NODES
            + "1 Insufficient cpu, 2 node(s) had untolerated taint {secret: x}, 3 node(s) had untolerated taint {other: }, "
            "1 node(s) were unschedulable. preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling.",
            NODES + "1 Insufficient cpu, 5 node(s) had untolerated taint(s), "
            "1 node(s) were unschedulable. preemption: 0/9 nodes are available: 9 Preemption is not helpful for scheduling.",
        ),
        (
            NODES + "2 node(s) had untolerated taint(s), 1 node(s) had untolerated taint {a.b/c: d}",
            NODES + "3 node(s) had untolerated taint(s)",
        ),
        (
            NODES
            + "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, 1 node(s) had untolerated taint {pool: b}, "
            "1 node(s) had untolerated taint {mine: x}, 1 node(s) had untolerated taint {mine-not: x}.",
            NODES
            + "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, 1 node(s) had untolerated taint {pool: b}, "
            "1 node(s) had untolerated taint {mine: x}, 1 node(s) had untolerated taint(s).",
        ),
        (
            NODES + "1 node(s) had untolerated taint {a: }. "
            "preemption: 0/9 nodes are available: 2 node(s) had untolerated taint {b: }.",
            NODES
            + "1 node(s) had untolerated taint(s). preemption: 0/9 nodes are available: 2 node(s) had untolerated taint(s).",
        ),
        (
            "Preempted by pod 0b8c7a52-0000-4000-8000-000000000009 on node gpu-b",
            "Preempted by a pod that comes before it on node gpu-b",
        ),
        ("Preempted by a pod on node of-another", "Preempted by a pod that comes before it"),
        ("Preempted by bh-blue-work/p on node of-another", "Preempted by a pod that comes before it"),
        (
            "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 2, used: 7, capacity: 8",
            "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 2",
        ),
        (
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 89112Ki. Container main was using 3Gi",
            "The node was low on resource: memory. Container main was using 3Gi",
        ),
        (
            "The node was low on resource: ephemeral-storage. Threshold quantity: 10%, available: 0.",
            "The node was low on resource: ephemeral-storage. ",
        ),
        ("waits for bh-blue-work/db", "waits for (hidden)/db"),
        (
            f"Successfully assigned {VIEW.work_namespace}/{VIEW.host_name('Pod', 'team', 'web-0')} to gpu-a",
            "Successfully assigned team/web-0 to gpu-a",
        ),
        ("Pulling image example.org/bh-tools:1", "Pulling image example.org/bh-tools:1"),
    ],
)
def test_what_a_tenant_is_told(said: str, told: str) -> None:
    assert sanitise.for_tenant(said, POD, VIEW) == told


def test_what_a_container_says_is_its_own() -> None:
    """A program's last words are the tenant's, whatever they look like."""
    assert sanitise.text("1 node(s) had untolerated taint {a: b}", POD, VIEW) == "1 node(s) had untolerated taint {a: b}"
