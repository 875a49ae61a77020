"""What reads the pods of all tenants takes whatever a syncer may have written on its own ones: no pod ends such a loop. Pure.

The host's API server has checked the shape of pods by then, and not what notes say.
"""

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.api import labels, ledger
from bulkhead.ledger import read
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Node, Share, Snapshot, Tenant
from controller.dispatch import seen
from controller.host import accelerators
from controller.metering import claims, usage
from tests.ledger.junk import CLAIM_FIELDS, junk

GPU = "nvidia.com/gpu"
TIME = "2026-06-01T12:00:00Z"
NOW = 1_780_315_300.0
NOTES = sorted(
    {
        value
        for module in (labels, ledger)
        for value in vars(module).values()
        if isinstance(value, str) and "bulkhead.dev/" in value and " " not in value
    }
)
FIELDS = frozenset(
    {
        "at", "node", "flavor", "borrowed", "gang", "since", "size", "members", "topology", "shape", "alone", "pinned",
        "unflavored", "kind", "name", "controller", "apiVersion", "uid", "by", "cause", "text", GPU,
    }
)  # fmt: skip
# Notes of the right shape with a value that Python's own reader of JSON takes, and no encoder.
HALVES = [
    r'[{"apiVersion": "batch/v1", "kind": "Job", "name": "\ud800", "controller": true}]',
    r'{"at": "2026-06-01T12:00:00Z", "node": "n1", "flavor": "\udc00", "borrowed": {"\ud800": 1}}',
    r'{"at": "2026-06-01T12:00:00Z", "gang": {"since": "2026-06-01T12:00:00Z", "size": 2, "shape": "\ud800"}}',
]
VALUES = st.text(max_size=12) | junk(FIELDS).map(json.dumps) | st.sampled_from([*HALVES, "NaN", "1" * 400, "²", TIME])


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    amount = draw(st.sampled_from(["0", "1", "2", "1500m", "1Ki", "9223372036854775807"]))
    noted = draw(st.dictionaries(st.sampled_from(NOTES), VALUES, max_size=6))
    for name, half in zip((labels.VIRTUAL_OWNERS, ledger.ADMITTED, ledger.ADMITTED), HALVES, strict=True):
        if draw(st.booleans()):
            noted[name] = half
    meta = {
        "name": "p",
        "namespace": draw(st.sampled_from(["bh-red-work", "default"])),
        "uid": "u",
        "resourceVersion": "5",
        "creationTimestamp": TIME,
        "annotations": noted,
        "labels": draw(st.dictionaries(st.sampled_from(NOTES), st.text(max_size=12), max_size=4)),
    }
    spec = {
        "nodeName": draw(st.sampled_from(["", "n1"])),
        "containers": [{"name": "a", "resources": {"requests": {GPU: amount, "cpu": "1"}, "limits": {GPU: amount}}}] * 3,
        "schedulingGates": draw(st.sampled_from([[], [{"name": ledger.GATE}]])),
        "activeDeadlineSeconds": draw(st.none() | st.integers(1, 2**31 - 1)),
        "priority": draw(st.integers(-(2**31), 2**31 - 1)),
    }
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": TIME}
    status = {"phase": draw(st.sampled_from(["Pending", "Running"])), "startTime": TIME, "conditions": [bound]}
    return {"metadata": meta, "spec": spec, "status": status}


@given(pods())
def test_no_pod_ends_what_counts_and_admits_the_pods_of_all(pod: dict[str, Any]) -> None:
    raw = msgspec.json.encode(pod)
    usage.of_pod(raw, None)
    accelerators.of_pod(raw, None)
    seen.decoded(pod, 0.0)
    found = read.pod_of(pod)
    if found is None:
        return
    tenants = {"red": Tenant("red", shares={("", GPU): Share(1)})}
    decisions = decide(Snapshot(tenants, (Node("n1", {GPU: 4, "cpu": 8000, "pods": 10}),), (found,)), NOW)
    for verdict in decisions.verdicts.values():
        assert verdict.message.encode(), "it is written into the pod's condition"


@given(junk(CLAIM_FIELDS))
def test_no_claim_ends_what_counts_the_claims_of_all(spec: Any) -> None:
    meta = {"name": "c", "namespace": "bh-red-work", "uid": "u", "resourceVersion": "5"}
    claims.of_claim(json.dumps({"metadata": meta, "spec": spec, "status": spec}).encode(), None)
