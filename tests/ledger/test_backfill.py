"""What goes ahead of the first one in the queue never makes it wait longer."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulkhead.ledger.decide import decide
from bulkhead.ledger.heads import Heads
from bulkhead.ledger.model import Gang, Pod, Share, Snapshot, Stage, Tenant
from tests.ledger.world import COHORT, GPU, nodes

NOW = 10_000.0
RUNNING = st.lists(st.tuples(st.sampled_from((1, 2, 4)), st.sampled_from((None, 50.0, 300.0, 900.0))), min_size=2, max_size=8)
BEHIND = st.lists(st.tuples(st.sampled_from((1, 2)), st.sampled_from((None, 30.0, 200.0, 800.0))), max_size=8)


def snapshot_of(running: list[tuple[int, float | None]], behind: list[tuple[int, float | None]]) -> Snapshot:
    """Two nodes, one tenant: what runs, a gang of two whole nodes, and small work behind it."""
    pods, free = [], {"n0": 8, "n1": 8}
    for number, (gpus, ends) in enumerate(running):
        node = next((name for name, room in free.items() if room >= gpus), None)
        if node is not None:
            free[node] -= gpus
            pods.append(_pod(f"r{number}", gpus, NOW - 500, stage=Stage.BOUND, node=node, ends_by=ends and NOW + ends))
    gang = Gang("head", 2)
    pods += [_pod(f"h{number}", 8, NOW - 100, gang=gang) for number in range(2)]
    pods += [_pod(f"w{number}", gpus, NOW - 50 + number, lasts=lasts) for number, (gpus, lasts) in enumerate(behind)]
    return Snapshot({"ada": Tenant("ada", COHORT, shares={("", GPU): Share(32)})}, tuple(nodes(2).values()), tuple(pods))


def _pod(uid: str, gpus: int, created: float, **more: object) -> Pod:
    pod = Pod(uid, "ns", uid, {GPU: gpus}, Stage.WAITING, created, tenant="ada", virtual_namespace="ns", virtual_name=uid)
    return replace(pod, **more)  # type: ignore[arg-type]


def delays(snapshot: Snapshot) -> str:
    """Whether what was admitted ends too late for the first one; "" if not."""
    decisions = decide(snapshot, NOW)
    head = decisions.verdicts.get("h0")
    if head is None:
        return ""
    starts = head.starts_by
    for each in decisions.admit:
        if starts is None or each.pod.lasts is None or NOW + each.pod.lasts > starts:
            return f"{each.pod.uid} lasts {each.pod.lasts}, and the first one could start by {starts}"
    admitted = {each.pod.uid: each.node for each in decisions.admit}
    after = tuple(
        replace(pod, stage=Stage.BOUND, node=admitted[pod.uid], ends_by=NOW + 60.0 + (pod.lasts or 0))
        if pod.uid in admitted
        else pod
        for pod in snapshot.pods
    )
    then = decide(replace(snapshot, pods=after), NOW).verdicts["h0"].starts_by
    return "" if then == starts else f"it could start by {starts}, and now by {then}"


@given(running=RUNNING, behind=BEHIND)
@settings(max_examples=150, deadline=None)
def test_the_first_one_starts_no_later(running: list[tuple[int, float | None]], behind: list[tuple[int, float | None]]) -> None:
    assert not delays(snapshot_of(running, behind))


def test_something_goes_ahead_at_all() -> None:
    decisions = decide(snapshot_of([(4, 900.0), (4, 900.0)], [(1, 200.0)]), NOW)
    assert [each.pod.uid for each in decisions.admit] == ["w0"]
    assert decisions.verdicts["h0"].starts_by == NOW + 900.0


def test_a_delay_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bulkhead.ledger.admit._START_AND_STOP_SECONDS", -1e9)
    assert delays(snapshot_of([(4, 100.0), (4, 100.0)], [(1, 800.0)]))
    monkeypatch.undo()
    monkeypatch.setattr(Heads, "keep", lambda *_: None)
    assert delays(snapshot_of([(4, 100.0), (4, 100.0)], [(1, None)]))
