"""A worker of Slurm, or a pod that a budget holds, is spared once no pod waits for what it holds, and not before."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Cause, Gang, Node, Pod, Share, Snapshot, Stage, Tenant

GPU, NIC = "nvidia.com/gpu", "rdma/hca"
NOW = 10_000.0


def pod(name: str, tenant: str, *, asks: str = GPU, stage: Stage = Stage.WAITING, gpus: int = 2, **more: object) -> Pod:
    held = stage in (Stage.ADMITTED, Stage.BOUND)
    made = Pod(name, f"bh-{tenant}-work", name, {asks: gpus}, stage, NOW - 1000, tenant=tenant, virtual_name=name)
    return replace(made, node="n1" if held else "", admitted=NOW - 900 if held else None, **more)  # type: ignore[arg-type]


WORKER = pod("w", "slurm", stage=Stage.BOUND, slurm_worker=True, reclaim_by=NOW + 60, reclaim_cause="ReclaimedBorrowed")
CASES: list[tuple[str, Pod, list[Pod], bool]] = [
    ("no pod waits", WORKER, [], True),
    ("its owner waits", WORKER, [pod("o", "owner")], False),
    ("its owner's pod has more to wait for", WORKER, [pod("o", "owner", stage=Stage.BLOCKED)], False),
    ("another tenant of the cohort waits", WORKER, [pod("o", "third")], False),
    ("its owner got what it asked for", WORKER, [pod("o", "owner", stage=Stage.BOUND)], True),
    ("its own tenant waits", WORKER, [pod("o", "slurm")], True),
    ("another cohort waits", WORKER, [pod("o", "stranger")], True),
    ("a pod waits for another resource", WORKER, [pod("o", "owner", asks=NIC)], True),
    ("fair share", replace(WORKER, reclaim_cause=Cause.FAIRNESS), [], True),
    ("its quota was lowered", replace(WORKER, reclaim_cause=Cause.LOWERED), [], False),
    ("it has gone by now", replace(WORKER, ending=True), [], False),
    ("it is not taken back", replace(WORKER, reclaim_by=None, reclaim_cause=""), [], False),
    ("a budget holds a pod of any other kind", replace(WORKER, slurm_worker=False), [], True),
    ("a budget holds it, and its owner waits", replace(WORKER, slurm_worker=False), [pod("o", "owner")], False),
    ("a pod of any other kind is going", replace(WORKER, slurm_worker=False, ending=True), [], False),
]


@pytest.mark.parametrize(("name", "worker", "others", "wanted"), CASES, ids=[each[0] for each in CASES])
def test_which_worker_is_spared(name: str, worker: Pod, others: list[Pod], wanted: bool) -> None:
    shares = {("", GPU): Share(2, borrowing=None), ("", NIC): Share(2)}
    tenants = {each: Tenant(each, cohort="c", shares=shares) for each in ("owner", "third")}
    tenants["slurm"] = Tenant("slurm", cohort="c", shares={("", GPU): Share(0, borrowing=None)})
    tenants["stranger"] = Tenant("stranger", cohort="other", shares=shares)
    snapshot = Snapshot(tenants, (Node("n1", {GPU: 4, NIC: 4, "pods": 100}),), (worker, *others))
    assert decide(snapshot, NOW).spare == ((worker,) if wanted else ())


GANG = tuple(
    pod(f"g{number}", "slurm", stage=Stage.BOUND, gang=Gang("g", 2), reclaim_by=NOW + 60, reclaim_cause=Cause.BORROWED)
    for number in range(2)
)
GANGS: list[tuple[str, tuple[Pod, ...], list[Pod], int]] = [
    ("all of it is held by a budget", GANG, [], 2),
    ("one pod is going", (GANG[0], replace(GANG[1], ending=True)), [], 0),
    ("one pod is not noted yet", (GANG[0], replace(GANG[1], reclaim_by=None, reclaim_cause="")), [], 0),
    ("one pod was not bound in time", (GANG[0], replace(GANG[1], reclaim_cause=Cause.ROLLBACK)), [], 0),
    ("one pod has no node yet", (GANG[0], replace(GANG[1], stage=Stage.ADMITTED, node="")), [], 0),
    (
        "one pod holds what another tenant waits for",
        (GANG[0], replace(GANG[1], asks={NIC: 1})),
        [pod("o", "owner", asks=NIC)],
        0,
    ),
    ("a pod of its name waits", GANG, [pod("g2", "slurm", gang=Gang("g", 2))], 2),
]


@pytest.mark.parametrize(("name", "gang", "others", "number"), GANGS, ids=[name for name, *_ in GANGS])
def test_a_gang_is_spared_as_a_whole(name: str, gang: tuple[Pod, ...], others: list[Pod], number: int) -> None:
    shares = {("", GPU): Share(2, borrowing=None), ("", NIC): Share(2, borrowing=None)}
    tenants = {team: Tenant(team, cohort="c", shares=shares) for team in ("owner", "slurm")}
    snapshot = Snapshot(tenants, (Node("n1", {GPU: 4, NIC: 4, "pods": 100}),), (*gang, *others))
    assert len(decide(snapshot, NOW).spare) == number


def test_a_tenant_that_has_left_every_cohort_owes_nothing() -> None:
    shares = {("", GPU): Share(2)}
    tenants = {each: Tenant(each, shares=shares) for each in ("owner", "slurm")}
    snapshot = Snapshot(tenants, (Node("n1", {GPU: 4, "pods": 100}),), (WORKER, pod("o", "owner", gpus=9)))
    assert decide(snapshot, NOW).spare == (WORKER,)


def test_a_spared_worker_is_not_reclaimed_again_for_the_same_moment() -> None:
    shares = {("", GPU): Share(2, borrowing=None)}
    tenants = {each: Tenant(each, cohort="c", shares=shares) for each in ("owner", "slurm")}
    held = replace(WORKER, asks={GPU: 4})
    snapshot = Snapshot(tenants, (Node("n1", {GPU: 4, "pods": 100}),), (held,))
    assert decide(snapshot, NOW).spare == (held,)
    after = replace(snapshot, pods=(replace(held, reclaim_by=None, reclaim_cause=""),))
    assert decide(after, NOW).reclaim == ()
    again = replace(after, pods=(*after.pods, pod("o", "owner")))
    assert [each.pod.uid for each in decide(again, NOW).reclaim] == ["w"]


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    names = ["slurm", "owner", "third"]
    cohorts = draw(st.lists(st.sampled_from(["c", "d"]), min_size=3, max_size=3))
    tenants = {
        name: Tenant(name, cohort=cohort, shares={("", GPU): Share(draw(st.integers(0, 4)), borrowing=None)})
        for name, cohort in zip(names, cohorts, strict=True)
    }
    pods = []
    for at in range(draw(st.integers(0, 6))):
        stage = draw(st.sampled_from([Stage.WAITING, Stage.WAITING, Stage.BLOCKED, Stage.BOUND]))
        made = pod(
            f"p{at}",
            draw(st.sampled_from(names)),
            stage=stage,
            gpus=draw(st.integers(1, 4)),
            asks=draw(st.sampled_from([GPU, NIC])),
        )
        if stage is Stage.BOUND and draw(st.booleans()):
            cause = draw(st.sampled_from([Cause.BORROWED, Cause.FAIRNESS, Cause.LOWERED]))
            made = replace(made, slurm_worker=draw(st.booleans()), reclaim_by=NOW + 60, reclaim_cause=cause)
        pods.append(made)
    return Snapshot(tenants, (Node("n1", {GPU: draw(st.integers(0, 16)), NIC: 4, "pods": 100}),), tuple(pods))


@given(snapshots())
def test_a_spared_worker_is_never_reclaimed_for_what_waits_at_that_moment(snapshot: Snapshot) -> None:
    spare = {each.uid for each in decide(snapshot, NOW).spare}
    if not spare:
        return
    unmarked = tuple(replace(each, reclaim_by=None, reclaim_cause="") if each.uid in spare else each for each in snapshot.pods)
    again = decide(replace(snapshot, pods=unmarked), NOW)
    assert not spare & {each.pod.uid for each in again.reclaim}
