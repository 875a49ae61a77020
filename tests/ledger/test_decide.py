"""Which pods start, which are evicted, and which messages users read: golden cases, and what holds for all of them."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bulkhead.api import ledger
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Decisions, Gang, Node, Pod, Rules, Share, Snapshot, Stage, Tenant
from bulkhead.ledger.trial import try_quota
from tests.kit import yamlfiles
from tests.ledger.world import COHORT, GPU, World, nodes

CASES: list[dict[str, Any]] = yamlfiles.load(Path(__file__).parent / "data/decisions.yaml")
NOW = 10_000.0


def pods_of(lines: list[str], prefix: str, stage: Stage) -> list[Pod]:
    """See the data."""
    found: list[Pod] = []
    for number, line in enumerate(lines):
        tenant, gpus, *rest = line.split()
        said = dict(itertools.pairwise(rest))
        node = next((each for each in rest if each.startswith("n") and each[1:].isdigit()), "")
        count = next((int(each[1:]) for each in rest if each.startswith("x")), 0)
        gang = Gang(said.get("named", f"{prefix}{number}"), int(said.get("of", count))) if count else None
        since = NOW - float(said.get("age", 500 - number))
        for _ in range(count or 1):
            uid = f"{prefix}{len(found)}"
            found.append(
                Pod(
                    uid=uid,
                    namespace=f"bh-{tenant}-work",
                    name=uid,
                    asks={GPU: int(gpus)},
                    stage=stage,
                    created=since,
                    tenant=tenant,
                    node=node,
                    virtual_namespace="default",
                    virtual_name=uid,
                    priority=next((int(each[1:]) for each in rest if each.startswith("!")), 0),
                    gang=gang,
                    admitted=since if stage is Stage.BOUND else None,
                    lasts=float(said["lasts"]) if "lasts" in said else None,
                    ends_by=NOW + float(said["ends"]) if "ends" in said else None,
                    reclaim_by=NOW + float(said["leaving"]) if "leaving" in said else None,
                    reclaim_cause="ReclaimedBorrowed" if "leaving" in said else "",
                )
            )
    return found


def snapshot_of(case: dict[str, Any]) -> Snapshot:
    tenants = {}
    for name, said in case["tenants"].items():
        shares = said if isinstance(said, dict) else {"nominal": said}
        share = Share(shares["nominal"], shares.get("borrowing"), shares.get("lending"))
        over_since = {("", GPU): NOW - shares["over"]} if "over" in shares else {}
        tenants[name] = Tenant(name, COHORT, shares={("", GPU): share}, over_since=over_since)
    pods = pods_of(case.get("running", []), "r", Stage.BOUND) + pods_of(case.get("waiting", []), "w", Stage.WAITING)
    rules = {COHORT: Rules(**case["rules"])} if "rules" in case else {}
    return Snapshot(tenants, tuple(nodes(case["nodes"]).values()), tuple(pods), rules=rules)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_what_is_decided(case: dict[str, Any]) -> None:
    decisions = decide(snapshot_of(case), NOW)
    assert [each.pod.uid for each in decisions.admit] == case.get("admit", [])
    assert {each.pod.uid: each.cause for each in decisions.reclaim} == case.get("reclaim", {})
    texts = {uid: f"{each.why}: {each.message}" for uid, each in decisions.verdicts.items()}
    assert {uid: texts.get(uid) for uid in case.get("says", {})} == case.get("says", {})
    assert set(decisions.verdicts) | {each.pod.uid for each in decisions.admit} >= {
        f"w{number}" for number in range(len(case.get("waiting", [])))
    }
    if "next" in case:
        assert decisions.next_at == NOW + case["next"]


def test_a_deadline_is_the_bound_of_the_cohort() -> None:
    case = next(each for each in CASES if each["name"].startswith("lent quota comes back"))
    (reclaim,) = decide(snapshot_of(case), NOW).reclaim
    assert reclaim.deadline == NOW + 180.0
    assert reclaim.beneficiary == "ada"
    assert "ada" not in reclaim.message


def test_standings_add_up() -> None:
    case = {"tenants": {"ada": 8, "bob": {"nominal": 8, "lending": 4}, "cyd": 0}, "nodes": 2, "running": ["cyd 6 n0"]}
    standings = decide(snapshot_of(case), NOW).standings
    line = ("", GPU)
    assert {name: lines[line].lent for name, lines in standings.items()} == {"ada": 4, "bob": 2, "cyd": 0}
    assert {name: lines[line].ceiling for name, lines in standings.items()} == {"ada": 12, "bob": 16, "cyd": 12}
    assert standings["cyd"][line].borrowed == 6
    assert standings["ada"][line].borrowable == 0


@pytest.mark.parametrize(
    ("policy", "since", "told"),
    [
        ("Keep", None, "it runs until it ends, and its replacement starts only when there is quota for it"),
        # Since when was noted under other rules.
        ("Keep", NOW - 600.0, "it runs until it ends, and its replacement starts only when there is quota for it"),
        ("Reclaim", None, ""),
        ("Reclaim", NOW - 30.0, "it is evicted after 1970-01-01 02:56:10Z, unless there is quota for it by then"),
        ("Reclaim", NOW - 600.0, ""),
    ],
)
def test_pods_over_a_lowered_quota_are_told_until_they_go(policy: Any, since: float | None, told: str) -> None:
    # The oldest has quota; the gang and the one of lower priority do not.
    running = ["ada 4 n0 age 900", "ada 2 n0 x2 age 800", "ada 1 n1 !-1 age 850"]
    found = snapshot_of({"tenants": {"ada": {"nominal": 4, "borrowing": 0}}, "nodes": 2, "running": running})
    tenants = {"ada": replace(found.tenants["ada"], over_since={} if since is None else {("", GPU): since})}
    decisions = decide(replace(found, tenants=tenants, rules={COHORT: Rules(over_quota=policy)}), NOW)
    said = {uid: f"{each.why}: {each.message}" for uid, each in decisions.notices.items()}
    text = f"{ledger.OVER_QUOTA}: the quota of its tenant was lowered: {told}"
    assert said == (dict.fromkeys(("r1", "r2", "r3"), text) if told else {})
    goes = policy == "Reclaim" and since is not None and since + 600.0 <= NOW
    assert {each.pod.uid for each in decisions.reclaim} == ({"r1", "r2", "r3"} if goes else set())


MIG = "nvidia.com/mig-1g.10gb"


def pod_of(tenant: str, uid: str, asks: dict[str, int], since: float | None = None) -> Pod:
    """A pod that waits, or has run on the only node since then."""
    stage, node = (Stage.WAITING, "") if since is None else (Stage.BOUND, "n0")
    made = Pod(uid, f"bh-{tenant}-work", uid, asks, stage, since or 1.0, tenant, node=node, admitted=since)
    return replace(made, virtual_namespace="default", virtual_name=uid)


def goes(quotas: dict[str, tuple[int, int]], *pods: Pod, gpus: int, migs: int) -> list[str]:
    """Which pods are reclaimed on one node, with the quotas for GPUs and for MIG devices of each tenant."""
    tenants = {
        name: Tenant(name, COHORT, shares={("", GPU): Share(quota, None), ("", MIG): Share(small, None)})
        for name, (quota, small) in quotas.items()
    }
    node = Node("n0", {GPU: gpus, MIG: migs, "pods": 10})
    return [reclaim.pod.uid for reclaim in decide(Snapshot(tenants, (node,), pods), NOW).reclaim]


def test_a_workload_behind_another_reclaims_nothing_for_fairness() -> None:
    """The first waits for a GPU, whose borrower is in its minimum runtime, and for the small device that the second wants."""
    quotas = {"lender": (8, 4), "ada": (1, 1), "bob": (0, 0), "cyd": (0, 0)}
    running = (
        pod_of("lender", "young", {GPU: 9}, NOW - 10.0),
        pod_of("cyd", "large", {MIG: 3}, 1.0),
        pod_of("cyd", "small", {MIG: 2}, 2.0),
    )
    wants = pod_of("bob", "wants", {MIG: 1})
    assert goes(quotas, *running, wants, gpus=9, migs=5) == ["small"]
    assert goes(quotas, *running, wants, pod_of("ada", "first", {GPU: 1, MIG: 1}), gpus=9, migs=5) == []


def test_what_a_borrower_holds_within_its_quota_is_not_reclaimed_for_room() -> None:
    """It borrows one resource of two. Nothing is gained by the borrowed one alone, as the other is on the same node."""
    quotas = {"ada": (8, 2), "bob": (0, 2)}
    # What has run for less time would go first.
    lent, own = pod_of("bob", "lent", {GPU: 8}, 1.0), pod_of("bob", "own", {MIG: 2}, 1000.0)
    wants = pod_of("ada", "wants", {GPU: 8, MIG: 2})
    assert goes(quotas, lent, own, wants, gpus=8, migs=2) == []
    assert goes(quotas, lent, wants, gpus=8, migs=2) == ["lent"]


def test_a_gang_is_reclaimed_for_what_any_of_its_pods_borrows() -> None:
    gang = Gang("g", 2)
    launcher, worker = (
        replace(pod_of("bob", uid, asks, 1.0), gang=gang) for uid, asks in (("g-0", {MIG: 1}), ("g-1", {GPU: 8}))
    )
    wants = pod_of("ada", "wants", {GPU: 8})
    assert goes({"ada": (8, 0), "bob": (0, 1)}, launcher, worker, wants, gpus=8, migs=1) == ["g-0", "g-1"]


@pytest.mark.parametrize(("since", "goes_back"), [(59.0, []), (60.0, ["w"])])
def test_an_admitted_pod_has_its_time_to_be_bound(since: float, goes_back: list[str]) -> None:
    pod = replace(pod_of("ada", "w", {GPU: 1}), stage=Stage.ADMITTED, admitted=NOW - since, pinned="n0")
    assert Rules().bind_within == 60.0
    assert goes({"ada": (8, 0)}, pod, gpus=8, migs=0) == goes_back


def waiting_for_a_head(running: int) -> World:
    """A gang of whole nodes behind small work, of which there is always more."""
    world = World(nodes=nodes(2))
    world.tenants = {"ada": Tenant("ada", COHORT, shares={("", GPU): Share(16, None)}),
                     "bob": Tenant("bob", COHORT, shares={("", GPU): Share(16, None)})}  # fmt: skip
    for _ in range(running):
        world.create("bob", 1)
    world.settle()
    return world


def releases_until_the_head_starts(world: World) -> int | None:
    """Each time a small pod ends, another one comes. After how many ends the gang runs; None: never."""
    head = world.create("ada", 8, 2)
    for ends in range(64):
        # A few turns, and not all there may be: what is kept without a forecast is kept for a while.
        for _ in range(3):
            world.apply(world.decide())
            world.step(1.0)
        if all(pod.stage is Stage.BOUND for pod in world.pods.values() if pod.virtual_name == head):
            return ends
        world.step(1.0)
        world.end(min((pod for pod in world.held()), key=lambda pod: (pod.admitted or 0.0, pod.uid)))
        world.create("bob", 1)
    return None


def test_small_work_does_not_starve_a_gang() -> None:
    assert releases_until_the_head_starts(waiting_for_a_head(16)) == 16


def test_it_would_if_nothing_were_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bulkhead.ledger.heads.Heads.keep", lambda *_: None)
    assert releases_until_the_head_starts(waiting_for_a_head(16)) is None


def test_a_trial_says_who_loses_what_and_writes_nothing() -> None:
    case = {"tenants": {"ada": 8, "bob": 8}, "nodes": 2, "running": ["bob 8 n0", "bob 8 n1"], "waiting": ["ada 8"]}
    snapshot = replace(
        snapshot_of(case), tenants=snapshot_of(case).tenants | {"ada": Tenant("ada", COHORT, shares={("", GPU): Share(0)})}
    )
    trial = try_quota(snapshot, "ada", {("", GPU): Share(8, None)}, NOW)
    assert [(each.pod.uid, each.by) for each in trial.losses] == [("r1", NOW + 180.0)]
    assert not decide(snapshot, NOW).reclaim
    lowered = try_quota(snapshot, "bob", {("", GPU): Share(4, 0)}, NOW)
    assert lowered.kept == {"bob": {("", GPU): 12}}


def test_nothing_is_decided_of_nothing() -> None:
    assert decide(Snapshot({}, (), ()), NOW) == Decisions()


def test_marking_that_is_interrupted_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell dies after the first mark; the rest of the gang is evicted too, whichever workload needs it now."""

    def world() -> World:
        made = World(nodes=nodes(2))
        made.tenants = {name: Tenant(name, COHORT, shares={("", GPU): Share(8, None)}) for name in ("ada", "bob")}
        made.create("bob", 8, 2)
        made.settle()
        made.step(500.0)
        made.create("ada", 8)
        assert not made.apply(made.decide(), writes=1)
        made.tenants["ada"] = Tenant("ada", COHORT, shares={("", GPU): Share(0)})
        return made

    assert len(world().decide().reclaim) == 1
    monkeypatch.setattr("bulkhead.ledger.takeback._interrupted", lambda *_: None)
    assert not world().decide().reclaim


@pytest.mark.parametrize(
    "leaving", [{"ending": True}, {"reclaim_by": NOW + 60.0}, {"ends_by": NOW}], ids=lambda each: next(iter(each))
)
def test_a_pod_keeps_its_devices_until_it_is_gone(leaving: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers end after the request to end, so neither the quota nor the node is free before."""
    case = {"tenants": {"ada": 8, "bob": 8}, "nodes": 1, "running": ["bob 8 n0"], "waiting": ["ada 8"]}
    before = snapshot_of(case)
    held = replace(before.pods[0], **leaving)
    full = replace(before, pods=(held, *before.pods[1:]))
    assert not decide(full, NOW).admit
    monkeypatch.setattr("bulkhead.ledger.books.Side.hold", lambda *_: None)
    assert [each.pod.uid for each in decide(full, NOW).admit] == ["w0"]


def test_fairness_takes_no_gang_that_is_partly_nominal(monkeypatch: pytest.MonkeyPatch) -> None:
    case = {"tenants": {"ada": 0, "bob": 4, "cyd": 12}, "nodes": 2, "running": ["bob 8 n0 x2"], "waiting": ["ada 4"]}
    case["running"] = ["bob 8 n0 age 500 x1 of 2 named g", "bob 8 n1 age 500 x1 of 2 named g"]
    assert not decide(snapshot_of(case), NOW).reclaim
    monkeypatch.setattr("bulkhead.ledger.account.QuotaAccount.is_below_nominal", lambda *_: False)
    assert len(decide(snapshot_of(case), NOW).reclaim) == 2


def test_no_tenant_reclaims_from_one_that_borrows_no_more_than_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    case = next(each for each in CASES if each["name"].startswith("two that borrow as much"))
    assert not decide(snapshot_of(case), NOW).reclaim
    monkeypatch.setattr("bulkhead.ledger.reclaim.Search.__post_init__", _would_have_nothing)
    assert decide(snapshot_of(case), NOW).reclaim


def _would_have_nothing(search: Any) -> None:
    search._side = search.books.later
    search._within, search._would, search._has, search._places = False, -1.0, -1.0, 48


def test_a_quota_that_is_lowered_has_its_grace_whatever_is_over_of_another_line() -> None:
    """Of the GPUs the tenant has held too much for hours: a claim holds them, or a pod on a node that is lost."""
    tenant = Tenant(
        "ada", COHORT, shares={("", GPU): Share(0, 0), ("", MIG): Share(1, 0)}, over_since={("", GPU): NOW - 9000.0}
    )
    pods = (pod_of("ada", "gpu", {GPU: 1}, 1.0), pod_of("ada", "old", {MIG: 1}, 1.0), pod_of("ada", "new", {MIG: 1}, 2.0))
    node = Node("n0", {GPU: 8, MIG: 8, "pods": 10})
    rules = {COHORT: Rules(over_quota="Reclaim")}

    def decided(**since: float) -> Decisions:
        noted = {("", {"gpu": GPU, "mig": MIG}[name]): at for name, at in since.items()}
        return decide(Snapshot({"ada": replace(tenant, over_since=noted)}, (node,), pods, rules), NOW)

    assert [reclaim.pod.uid for reclaim in decided(gpu=NOW - 9000.0).reclaim] == ["gpu"]
    began = decided(gpu=NOW - 9000.0, mig=NOW - 30.0)
    assert [reclaim.pod.uid for reclaim in began.reclaim] == ["gpu"]
    assert set(began.notices) == {"new"}
    assert began.next_at is not None
    assert began.next_at <= NOW - 30.0 + Rules().over_quota_grace
    assert {reclaim.pod.uid for reclaim in decided(gpu=NOW - 9000.0, mig=NOW - 600.0).reclaim} == {"gpu", "new"}


def test_pods_over_a_lowered_quota_are_told_of_every_tenant() -> None:
    tight = {"nominal": 2, "borrowing": 0}
    case = {"tenants": {"ada": tight, "bob": tight}, "nodes": 2, "running": ["ada 2 n0", "ada 2 n0", "bob 2 n1", "bob 2 n1"]}
    assert set(decide(snapshot_of(case), NOW).notices) == {"r1", "r3"}


@pytest.mark.parametrize(("cause", "goes"), [("GangNotBound", set()), ("ReclaimedBorrowed", {"r1", "r2"})])
def test_a_pod_that_is_taken_back_takes_its_gang_along_unless_it_was_merely_not_bound(cause: str, goes: set[str]) -> None:
    found = snapshot_of({"tenants": {"ada": 8}, "nodes": 1, "running": ["ada 1 n0 x3 age 60"]})
    first, *others = found.pods
    marked = replace(first, reclaim_by=NOW + 20.0, reclaim_cause=cause)
    decisions = decide(replace(found, pods=(marked, *others)), NOW)
    assert {each.pod.uid for each in decisions.reclaim} == goes


def test_a_replacement_of_an_ended_member_that_is_not_bound_is_rolled_back_alone() -> None:
    found = snapshot_of({"tenants": {"ada": 8}, "nodes": 1, "running": ["ada 1 n0 x3 age 5000"]})
    *others, last = found.pods
    late = NOW - 2 * Rules().bind_within
    new = replace(last, stage=Stage.ADMITTED, node="", created=late, admitted=late)
    decisions = decide(replace(found, pods=(*others, new)), NOW)
    assert {each.pod.uid: each.cause for each in decisions.reclaim} == {"r2": "GangNotBound"}
