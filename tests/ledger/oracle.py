"""What must hold of a `World`, recomputed without the ledger's own arithmetic if possible.

After every write: nothing placed twice, nothing admitted beyond ceiling and capacity, and no two tenants evict each other in
turn. At rest: no gang admitted in part, an answer for every pod that tells nothing about others, and nothing idle that a pod
may use.
"""

import random
from collections import Counter
from dataclasses import replace

from bulkhead.ledger.books import OVERDUE_SECONDS, Books
from bulkhead.ledger.decide import decide
from bulkhead.ledger.model import Cause, Decisions, Line, Pod, Snapshot, Stage, Why
from bulkhead.ledger.order import Workload, sort_out
from tests.ledger.world import GPU, KIND, World


def after_write(world: World, what: str, pod: Pod) -> None:
    """The invariants that hold at any instant."""
    placed_once(world)
    if what == "admit" and pod.asks[GPU]:
        within_quota(world, pod)
    assert not any((other, one, kind) in world.taken for one, other, kind in world.taken), f"ping-pong: {sorted(world.taken)}"


def before_writes(world: World, decisions: Decisions) -> None:
    """Each moved pod is smaller than the workload that it is moved for, and has room on the node that the decision names."""
    taken: Counter[str] = Counter()
    for each in decisions.reclaim:
        if each.cause is not Cause.MOVED:
            continue
        comes = [pod for pod in world.pods.values() if pod.uid in decisions.verdicts and pod.tenant == each.beneficiary]
        sizes = Counter((pod.virtual_name, decisions.verdicts[pod.uid].why) for pod in comes for _ in range(pod.asks[GPU]))
        assert any(size > each.pod.asks[GPU] for (_, why), size in sizes.items() if why is Why.RECLAIMING), each
        assert each.pod.gang is None, each
        assert each.pod.tenant == each.beneficiary or _borrows(world, decisions, each.pod.tenant), each
        taken[each.to] += each.pod.asks[GPU]
    for name, gpus in taken.items():
        there = sum(pod.asks[GPU] for pod in world.held() if name in {pod.node, pod.pinned})
        assert world.nodes[name].usable, name
        assert there + gpus <= world.nodes[name].allocatable[GPU], f"no room on {name}"


def _borrows(world: World, decisions: Decisions, tenant: str) -> bool:
    """With what is admitted in the same turn."""
    more = sum(each.pod.asks[GPU] for each in decisions.admit if each.pod.tenant == tenant)
    return any(world.used(tenant, line) + more > share.nominal for line, share in world.tenants[tenant].shares.items())


def moved_start_again(world: World) -> None:
    """If nothing else happened, each moved pod runs, under another name or the same."""
    there = {pod.virtual_name for pod in world.held()}
    assert not set(world.moves) - there, f"moved, and does not run: {set(world.moves) - there}"


def placed_once(world: World) -> None:
    for node in world.nodes.values():
        there = [pod for pod in world.held() if node.name in {pod.node, pod.pinned}]
        assert sum(pod.asks[GPU] for pod in there) <= node.allocatable[GPU], f"{node.name} is given twice: {there}"


def within_quota(world: World, pod: Pod) -> None:
    """What was just admitted fits into its tenant's ceiling and its cohort's capacity."""
    for line, share in world.tenants[pod.tenant].shares.items():
        if line[0] and line[0] != world.kind(pod):
            continue
        used = world.used(pod.tenant, line)
        capacity, taken = _pool(world, line)
        mine = share.nominal - _kept(world, pod.tenant, line)
        most = share.nominal + min(capacity - mine, 1 << 30 if share.borrowing is None else share.borrowing)
        assert used <= most, f"{pod.tenant} holds {used} of {line}, and may hold {most}"
        assert used <= _kept(world, pod.tenant, line) or taken <= capacity, f"of {line} {taken} are taken of {capacity}"


def _kept(world: World, tenant: str, line: Line) -> int:
    share = world.tenants[tenant].shares[line]
    return share.nominal - min(share.nominal, share.nominal if share.lending is None else share.lending)


def _pool(world: World, line: Line) -> tuple[int, int]:
    names = [name for name, each in world.tenants.items() if line in each.shares]
    capacity = sum(world.tenants[name].shares[line].nominal - _kept(world, name, line) for name in names)
    return capacity, sum(max(0, world.used(name, line) - _kept(world, name, line)) for name in names)


def at_rest(world: World, decisions: Decisions) -> None:
    """The invariants that hold once nothing is left to do."""
    whole_gangs(world)
    moved_start_again(world)
    answers(world, decisions)
    conserving(world, decisions)
    owners_come_first(world, decisions)
    same_in_any_order(world)


def whole_gangs(world: World) -> None:
    gangs: dict[tuple[str, str], list[Pod]] = {}
    for pod in world.pods.values():
        if pod.gang is not None and pod.gang.name not in world.restarted:
            gangs.setdefault((pod.tenant, pod.gang.name), []).append(pod)
    for name, pods in gangs.items():
        # What runs beyond the size of a gang is a workload of its own, and counts as there.
        alone = sum(1 for pod in pods if pod.alone)
        # What cannot end on a silent node is nothing that the ledger could complete.
        stages = Counter(pod.stage for pod in pods if not pod.alone and not world.is_stuck(pod))
        held = stages[Stage.ADMITTED] + stages[Stage.BOUND]
        size = max(pod.gang.size for pod in pods if pod.gang is not None)
        assert not 0 < held < size - alone or not stages[Stage.WAITING], f"gang {name} is admitted in part: {stages}"


def answers(world: World, decisions: Decisions) -> None:
    said: dict[tuple[str, str], set[str]] = {}
    for pod in world.pods.values():
        if pod.stage in {Stage.WAITING, Stage.BLOCKED} and not pod.ending:
            assert pod.uid in decisions.verdicts, f"{pod} waits without an answer"
            text = decisions.verdicts[pod.uid].message
            assert not any(other in text.split() for other in world.tenants if other != pod.tenant)
            if pod.gang is not None and decisions.verdicts[pod.uid].why is not Why.GANG:
                said.setdefault((pod.tenant, pod.gang.name), set()).add(text)
    # Pods beyond the size of their gang are workloads of their own.
    assert all(len(texts) == 1 or name[1] in world.larger for name, texts in said.items()), said


def same_in_any_order(world: World) -> None:
    snapshot = world.snapshot()
    pods, nodes = list(snapshot.pods), list(snapshot.nodes)
    random.Random(len(pods)).shuffle(pods)  # noqa: S311
    shuffled = replace(snapshot, pods=tuple(pods), nodes=tuple(reversed(nodes)))
    assert decide(shuffled, world.now) == decide(snapshot, world.now)


def waiting(snapshot: Snapshot) -> list[Workload]:
    """What could be admitted if there were room."""
    found = sort_out(snapshot.pods)
    return [*found.rests, *found.workloads]


def fits(books: Books, workload: Workload) -> bool:
    """Whether quota and room suffice, if nothing is kept for others."""
    choices = books.flavors.choices(workload.tenant, workload.asks)
    # What joins a gang that runs goes where that is.
    for choice in [each for each in choices if workload.flavor in {"", each.name}] or choices:
        charge = books.charge(workload, choice)
        if books.now.account.lacks(workload.tenant, charge) is None and books.now.place(workload, choice) is not None:
            return True
    return False


def empty(snapshot: Snapshot) -> Books:
    """The same cluster with nothing on it."""
    held = {Stage.ADMITTED, Stage.BOUND}
    return Books(replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod.stage not in held)))


def conserving(world: World, decisions: Decisions) -> None:
    """No workload that could start now is kept waiting by one that cannot and that waits for the same."""
    snapshot = world.snapshot()
    books, bare = Books(snapshot), empty(snapshot)
    idle = [each for each in waiting(snapshot) if fits(books, each) and not (each.is_rest and _is_narrowed(each))]
    stuck = [each for each in waiting(snapshot) if not fits(books, each) and fits(bare, each)]
    for workload in idle:
        keeps_out = [each for each in stuck if _waits_for_the_same(world, books, each, workload)]
        said = {each.key: decisions.verdicts[each.pods[0].uid].message for each in [*idle, *stuck]}
        assert keeps_out, f"{workload.tenant} {workload.key} could start, {len(stuck)} cannot: {said}"


def owners_come_first(world: World, decisions: Decisions) -> None:
    """No borrower holds, or keeps reserved, what the only waiting tenant within its nominal quota waits for.

    Asked once all is at rest: each borrower has run for its minimum runtime, and had the time that a reclaim takes.
    """
    waits = [pod for pod in world.pods.values() if pod.stage is Stage.WAITING and not pod.ending and _is_within(world, pod)]
    if not waits or len({pod.tenant for pod in waits}) > 1:
        return
    mine = [
        pod for pod in world.pods.values() if pod.tenant == waits[0].tenant and pod.stage not in {Stage.ADMITTED, Stage.BOUND}
    ]
    for pod in mine:
        at = decisions.verdicts[pod.uid].starts_by if pod.uid in decisions.verdicts else None
        assert at is None or at + OVERDUE_SECONDS >= world.now, f"{pod} starts by a time that has passed"
    lines = _lines_that_come_back(world, waits[0])
    # Who starts by a known time takes nothing back.
    if len(mine) > 1 or mine[0].gang is not None or decisions.verdicts[mine[0].uid].starts_by is not None:
        return
    for node in world.nodes.values():
        there = [pod for pod in world.held() if node.name in {pod.node, pod.pinned}]
        stay = sum(pod.asks[GPU] for pod in there if world.is_stuck(pod) or _has_quota(world, pod.tenant))
        usable = node.usable and any(flavor in {"", node.labels.get(KIND)} for flavor, _ in lines)
        room = node.allocatable[GPU] - stay
        assert not usable or room < mine[0].asks[GPU], f"{mine[0]} is kept out of its own quota by {there}"


def _has_quota(world: World, tenant: str) -> bool:
    return any(share.nominal for share in world.tenants[tenant].shares.values())


def _lines_that_come_back(world: World, pod: Pod) -> list[Line]:
    """The lines of this pod's tenant whose quota comes back, whatever is stuck on silent nodes.

    Other tenants may hold what is nominally theirs, and what is stuck stays held: the rest of the cohort is all there is.
    """
    found = []
    for line in _lines_within(world, pod):
        capacity, _ = _pool(world, line)
        taken = max(0, world.used(pod.tenant, line) + pod.asks[GPU] - _kept(world, pod.tenant, line))
        for name, tenant in world.tenants.items():
            if name != pod.tenant and line in tenant.shares:
                stuck = sum(each.asks[GPU] for each in world.held() if each.tenant == name and _counts(world, each, line))
                most = max(stuck, min(world.used(name, line), tenant.shares[line].nominal))
                taken += max(0, most - _kept(world, name, line))
        if taken <= capacity:
            found.append(line)
    return found


def _counts(world: World, pod: Pod, line: Line) -> bool:
    return world.is_stuck(pod) and line[0] in {"", world.kind(pod)}


def _is_within(world: World, pod: Pod) -> bool:
    return pod.asks[GPU] > 0 and bool(_lines_within(world, pod))


def _lines_within(world: World, pod: Pod) -> list[Line]:
    shares = world.tenants[pod.tenant].shares
    return [line for line, share in shares.items() if world.used(pod.tenant, line) + pod.asks[GPU] <= share.nominal]


def _is_narrowed(rest: Workload) -> bool:
    """Whether what is missing of a gang has to go where the others are: that is not looked at here."""
    return rest.topology is not None and rest.topology.required


def _waits_for_the_same(world: World, books: Books, first: Workload, workload: Workload) -> bool:
    choices = books.flavors.choices(first.tenant, first.asks)
    lacks = {books.now.account.lacks(first.tenant, books.charge(first, choice)) for choice in choices}
    if lacks == {"own"}:
        return first.tenant == workload.tenant
    return True


def admissible(world: World) -> list[Workload]:
    """What has to start sooner or later: it would on a cluster with nothing on it, where all nodes are usable."""
    bare = empty(world.snapshot())
    return [each for each in waiting(world.snapshot()) if fits(bare, each)]


def drain(world: World) -> None:
    """No new pods come: every waiting pod that can start must start, after no more releases than there are pods."""
    for name, node in world.nodes.items():
        world.nodes[name] = replace(node, usable=True)
    world.happens()
    for _ in range(2 * len(world.pods) + 4):
        decisions = world.settle()
        at_rest(world, decisions)
        left = admissible(world)
        running = sorted((pod for pod in world.held()), key=lambda pod: (pod.admitted or 0.0, pod.uid))
        if not left or not running:
            break
        first = running[0]
        for pod in running:
            if pod.uid == first.uid or (first.gang is not None and pod.gang == first.gang and pod.tenant == first.tenant):
                world.end(pod)
    assert not admissible(world), [decisions.verdicts[each.pods[0].uid] for each in admissible(world)]
    assert all(each.why is not Why.RECLAIMING for each in decisions.verdicts.values())
