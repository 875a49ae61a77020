"""The ledger's gate, as a syncer might write it or leave it out: of team-a network devices are lent, and gangs start whole."""

from typing import Any

from tests.chart.admission_objects import ANNOTATIONS, CLOSED, Change, pod

GATED = [{"name": "bulkhead.dev/ledger"}]
OF_ITS_OWN = [{"name": "tenant"}]
LENT = {"resources": {"limits": {"rdma/hca": "1"}}, "envFrom": CLOSED}


def noted(**said: str) -> dict[str, Any]:
    """A pod that waits, with annotations of ours."""
    made = pod(LENT, schedulingGates=GATED)
    own = {f"bulkhead.dev/{key.replace('_', '-')}": value for key, value in said.items()}
    return made | {"metadata": made["metadata"] | {"annotations": ANNOTATIONS | own}}


def annotated(key: str, value: str | None) -> dict[str, Any]:
    """A patch of one annotation."""
    return {"metadata": {"annotations": {key: value}}}


def of_a_gang(**spec: Any) -> dict[str, Any]:
    made = noted(gang="train.0a1b2c3d", gang_size="2")
    return pod(**spec) | {"metadata": made["metadata"]}


NO_GATE = "pod: waits at the ledger's gate, because it asks for what its tenant's cohort lends"
NO_GATE_OF_A_GANG = "pod: waits at the ledger's gate, because it is of a gang"
NO_GANG = "pod: a gang has a name, a size of 1 to 4096, and one topology; its own priority is a number"
KEEPS = "pod: keeps the gang and the own priority that it was made with"

REFUSED: dict[str, dict[str, Any]] = {
    "what is lent without its gate": pod(LENT),
    "what is lent at a gate of its own": pod(LENT, schedulingGates=OF_ITS_OWN),
    "what is lent by a request": pod({"resources": {k: {"rdma/hca": "2"} for k in ("requests", "limits")}, "envFrom": CLOSED}),
    "what is lent to an init container": pod(initContainers=[{"name": "i", "image": "x"} | LENT]),
    "a gang without its gate": of_a_gang(),
    "a gang without a size": noted(gang="train"),
    "a gang without members": noted(gang="train", gang_size="0"),
    "a gang of too many": noted(gang="train", gang_size="4097"),
    "a gang of thousands": noted(gang="train", gang_size="10000"),
    "a gang of a fraction": noted(gang="train", gang_size="1.5"),
    "a size of no gang": noted(gang_size="many"),
    "a gang with a name of no object": noted(gang="Train/all", gang_size="2"),
    "a gang without a name": noted(gang="", gang_size="2"),
    "a gang with too long a name": noted(gang="a" * 254, gang_size="2"),
    "a topology that is neither wished nor needed": noted(gang="train", gang_size="2", gang_topology="rack"),
    "a topology of no label": noted(gang="train", gang_size="2", gang_topology="required:a b"),
    "two topologies": noted(gang="train", gang_size="2", gang_topology="required:rack,required:zone"),
    "an own priority in words": noted(own_priority="high"),
    "admitted by its word": {
        **noted(),
        "metadata": noted()["metadata"] | {"annotations": ANNOTATIONS | {"ledger.bulkhead.dev/admitted": "{}"}},
    },
}
REASONS: dict[str, tuple[str, ...]] = {
    NO_GATE: (
        "what is lent without its gate",
        "what is lent at a gate of its own",
        "what is lent by a request",
        "what is lent to an init container",
    ),
    NO_GATE_OF_A_GANG: ("a gang without its gate",),
    NO_GANG: (
        "a gang without a size",
        "a gang without members",
        "a gang of too many",
        "a gang of thousands",
        "a gang of a fraction",
        "a size of no gang",
        "a gang with a name of no object",
        "a gang without a name",
        "a gang with too long a name",
        "a topology that is neither wished nor needed",
        "a topology of no label",
        "two topologies",
        "an own priority in words",
    ),
}
ALLOWED: dict[str, dict[str, Any]] = {
    "what is lent at the ledger's gate": noted(),
    "none of what is lent": pod({"resources": {"limits": {"rdma/hca": "0", "nvidia.com/gpu": "1"}}}),
    "what is lent at two gates": pod(LENT, schedulingGates=[*OF_ITS_OWN, *GATED]),
    "what is not lent, at the gate": pod(schedulingGates=GATED),
    "a gang": of_a_gang(schedulingGates=GATED),
    "the largest gang": noted(
        gang="a" * 253, gang_size="4096", gang_topology="preferred:topology.kubernetes.io/zone", own_priority="-2147483648"
    ),
}
CHANGES: dict[str, Change] = {
    "past the ledger's gate": Change(noted(), {"spec": {"schedulingGates": None}}),
    "past the ledger's gate and its own": Change(
        pod(LENT, schedulingGates=[*OF_ITS_OWN, *GATED]), {"spec": {"schedulingGates": None}}
    ),
    "a larger gang later": Change(noted(gang="train", gang_size="2"), annotated("bulkhead.dev/gang-size", "3")),
    "a gang later": Change(pod(), {"metadata": {"annotations": {"bulkhead.dev/gang": "train", "bulkhead.dev/gang-size": "2"}}}),
    "a gang that is withdrawn": Change(noted(gang="train", gang_size="2"), annotated("bulkhead.dev/gang", None)),
    "a gang by its status": Change(pod(), annotated("bulkhead.dev/gang", "train"), "status"),
    "another own priority": Change(noted(own_priority="1"), annotated("bulkhead.dev/own-priority", "2")),
    "admitted by its word later": Change(noted(), annotated("ledger.bulkhead.dev/admitted", "{}")),
    "not taken back by its word": Change(
        {**noted(), "metadata": noted()["metadata"] | {"annotations": ANNOTATIONS | {"ledger.bulkhead.dev/reclaim": "{}"}}},
        annotated("ledger.bulkhead.dev/reclaim", None),
        by_others=True,
    ),
}
REASONS_OF_CHANGES: dict[str, tuple[str, ...]] = {
    "pod: the ledger's gate is taken away by the ledger": ("past the ledger's gate", "past the ledger's gate and its own"),
    KEEPS: ("a larger gang later", "a gang later", "a gang that is withdrawn", "a gang by its status", "another own priority"),
}
# Made before its tenant had a cohort, or admitted since: written as ever.
KEPT: dict[str, dict[str, Any]] = {"a lent resource in an older pod": pod(LENT), "an older gang": of_a_gang()}
