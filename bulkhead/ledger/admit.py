"""One workload after the other: it is admitted, or it waits, and what it waits for is kept for it.

    next in order ──> quota and room are there ───────────────────────> admitted
                  ──> it ends before those it passes can start ───────> admitted
                  ──> suffices once what is on its way out is gone ───> kept for it
                  ──> suffices once some that borrow are gone ────────> those are taken back, and kept for it
                  ──> first to wait for this quota or room ───────────> kept for it as it comes free
                  ──> else ───────────────────────────────────────────> behind

What is kept for a workload, nobody behind it gets, unless he is known to end before. Whoever waits for his own tenant's ceiling
keeps out only his own tenant: nobody else pays for that. What can never start keeps out nobody.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bulkhead.ledger import forecast, verdict
from bulkhead.ledger.account import Charge, Lack
from bulkhead.ledger.books import Books, Done
from bulkhead.ledger.flavors import Choice
from bulkhead.ledger.model import Admission, Flavor, Line, Rules, Snapshot, Verdict, Why
from bulkhead.ledger.order import Group, Workload
from bulkhead.ledger.place import Shortfall
from bulkhead.ledger.reclaim import Candidates, Found, Search
from bulkhead.ledger.takeback import Back

# Bounds of one turn; what lies beyond them waits for the next one, with a shorter answer.
_SEARCHES: Final = 64
_FORECASTS: Final = 8
_EXPLAINED: Final = 256
_EXPLAINED_OF_ONE: Final = 32
_LIFTED: Final = 20_000  # pods whose reservations are lifted on trial
# From the decision to the end of a pod there are more steps than its run: binding, starting, stopping.
_AROUND: Final = 60.0


@dataclass(frozen=True, slots=True)
class Option:
    """One way to charge a workload, and what is missing now: a lack of quota, or room."""

    choice: Choice
    charge: Charge
    lack: Lack | None


@dataclass(slots=True)
class Outcome:
    """What became of all that was judged."""

    admitted: list[Admission] = field(default_factory=list)
    backs: list[Back] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    # When something ripens.
    times: list[float] = field(default_factory=list)


class Gate:
    """The judge of one turn."""

    def __init__(self, snapshot: Snapshot, books: Books, candidates: Candidates, now: float) -> None:
        self._snapshot, self._books, self._candidates, self._now = snapshot, books, candidates, now
        self.outcome = Outcome()
        self._rested: dict[int, tuple[Choice, ...]] = {}
        # What is kept, and until when at least: None where it may be needed at any moment.
        self._kept: list[tuple[Done, float | None]] = []
        # Which quota and which room somebody waits for who came first.
        self._quota_heads: set[tuple[str, Line]] = set()
        self._own_heads: set[tuple[str, Line]] = set()
        self._room_heads: set[tuple[str, Line]] = set()
        self._led: set[tuple[str, str]] = set()
        # Lines for which a tenant has somebody waiting for whom they are not kept: who is behind him takes nothing back.
        self._stalled: set[tuple[str, Line]] = set()
        self._futile: set[tuple[object, ...]] = set()
        self._shortfalls: dict[tuple[object, ...], Shortfall] = {}
        self._explained: dict[str, int] = {}
        self._searches, self._forecasts, self._lifted = _SEARCHES, _FORECASTS, _LIFTED

    def charges(self, workload: Workload) -> list[Charge]:
        """What a workload may be charged; its place in the order goes by that."""
        return [self._books.charge(workload, choice) for choice in self._choices(workload)]

    def can_start(self, workload: Workload) -> bool:
        """Whether it could start if nothing else ran on the nodes that there are; if not, it keeps out nobody."""
        choices = self._choices(workload)
        account, books = self._books.now.account, self._books
        given = [each for each in choices if account.could_ever(workload.tenant, books.charge(workload, each))]
        if any(books.could_ever(workload, each) for each in given):
            return True
        self._say(workload, self._cannot(workload, choices, given))
        return False

    def _cannot(self, workload: Workload, choices: Sequence[Choice], given: Sequence[Choice]) -> Verdict:
        """Why it could not start even if nothing else ran; of several flavors by the one that its own needs leave."""
        if not choices:
            return verdict.flavors_apart(workload)
        # Who waits for a node that is down does not wait for another kind.
        board = self._books.now.board.emptied()
        left = [each for each in choices if not each.name or board.reach(workload.pods, each.flavor)]
        told = min(choices, key=lambda each: (each not in left, each not in given))
        if not left and (nodes := board.reach(workload.pods)):
            kinds = [each for each in self._rules(workload).flavors if board.reach(workload.pods, each)]
            return verdict.of_no_kind(workload, nodes, kinds, self._nominals(workload.tenant, told.of))
        charge = self._books.charge(workload, told)
        if told not in given:
            return self._of_quota(workload, Option(told, charge, "never"))
        short = self._explain(workload, told)
        return verdict.never(workload) if short is None else verdict.of_room(short, workload.topology, told.name)

    def _nominals(self, tenant: str, resources: Iterable[str]) -> dict[Line, int]:
        """What a tenant has of each flavor of these resources."""
        lines = self._books.now.account.lines(tenant)
        return {line: entry.nominal for line, entry in lines if line[0] and line[1] in resources}

    def rest(self, workload: Workload, group: Group) -> None:
        """Judge what is missing of a gang that is admitted: of its flavor, and in its domain."""
        pods = [pod for pod in group.pods if not pod.ending]
        choices = list(self._choices(workload))
        topology = workload.topology
        nodes = [self._candidates.nodes.get(pod.node or pod.pinned) for pod in pods]
        if topology is not None and topology.required and nodes:
            domain = next(
                (node.labels[topology.key] for node in nodes if node is not None and topology.key in node.labels), None
            )
            if domain is not None:
                choices = [_narrowed(each, workload, topology.key, domain) for each in choices]
        self._rested[id(workload)] = tuple(choices)
        self.judge(workload)

    def judge(self, workload: Workload) -> None:
        """Admit a workload, or say why it waits."""
        options = []
        charged = [
            (each, self._books.charge(workload, each)) for each in self._rested.get(id(workload)) or self._choices(workload)
        ]
        if len(charged) > 1:
            # It has its place in the order because some flavor is its tenant's own: that comes before what would be borrowed.
            charged.sort(key=lambda each: not self._books.now.account.within_nominal(workload.tenant, each[1]))
        for choice, charge in charged:
            lack = self._books.now.account.lacks(workload.tenant, charge)
            nodes = self._books.now.place(workload, choice) if lack is None else None
            if nodes is not None:
                self._admit(workload, choice, charge, nodes)
                return
            options.append(Option(choice, charge, lack))
        if not self._passes(workload, options):
            self._wait(workload, options)

    def _choices(self, workload: Workload) -> tuple[Choice, ...]:
        choices = self._books.flavors.choices(workload.tenant, workload.asks)
        return tuple(each for each in choices if workload.flavor in {"", each.name}) or choices

    def _admit(self, workload: Workload, choice: Choice, charge: Charge, nodes: Sequence[str]) -> None:
        self._books.do(Done(workload, charge, nodes))
        over = self._books.now.account.borrowed(workload.tenant, charge)
        left = {resource: amount for (_, resource), amount in over.items()}
        admitted = []
        for pod, node in zip(reversed(workload.pods), reversed(nodes), strict=True):
            borrowed = {name: min(pod.asks.get(name, 0), amount) for name, amount in left.items()}
            borrowed = {name: amount for name, amount in borrowed.items() if amount > 0}
            for name, amount in borrowed.items():
                left[name] -= amount
            admitted.append(Admission(pod, node, choice.name, borrowed))
        self.outcome.admitted.extend(reversed(admitted))

    def _passes(self, workload: Workload, options: Sequence[Option]) -> bool:
        """Admit it in the room and quota that is kept for others, if it ends before any of these can start."""
        if workload.lasts is None or workload.is_rest:
            return False
        ends = self._now + workload.lasts + _AROUND
        kept = [done for done, until in self._kept if until is not None and ends <= until]
        cost = sum(len(done.nodes) + 1 for done in kept)
        if not kept or cost > self._lifted:
            return False
        self._lifted -= cost
        side = self._books.now
        mark = side.mark()
        for done in kept:
            side.do(done, -1)
        for option in options:
            fits = side.account.lacks(workload.tenant, option.charge) is None
            nodes = side.place(workload, option.choice) if fits else None
            if nodes is not None:
                side.undo(mark)
                self._admit(workload, option.choice, option.charge, nodes)
                return True
        side.undo(mark)
        return False

    def _wait(self, workload: Workload, options: Sequence[Option]) -> None:
        """Find out what it waits for."""
        possible = [each for each in options if each.lack != "never" and self._books.could_ever(workload, each.choice)]
        if not possible:
            self._say(workload, verdict.never(workload))
            return
        kept = next((each for each in possible if self._comes(workload, each)), None)
        kept = kept or next((each for each in possible if self._reclaims(workload, each)), None)
        if kept is None:
            # The one for which the least is missing.
            best = min(possible, key=lambda each: _SEVERITY[each.lack])
            kept = best if self._hold_place(workload, best) else None
        # What is not kept for it, it may take all the same when it comes free: who is behind it would take that back in vain.
        others = (each for each in possible if each is not kept)
        self._stalled.update((workload.tenant, line) for each in others for line in each.charge)

    def _explain(self, workload: Workload, choice: Choice) -> Shortfall | None:
        key = (workload.shape, choice.name, workload.topology)
        found = self._shortfalls.get(key)
        if found is None:
            count = self._explained.get(workload.tenant, 0)
            if count >= _EXPLAINED_OF_ONE or len(self._shortfalls) >= _EXPLAINED:
                return None
            self._explained[workload.tenant] = count + 1
            found = self._books.now.board.explain(workload.pods, choice.flavor, workload.topology)
            self._shortfalls[key] = found
        return found

    def _comes(self, workload: Workload, option: Option) -> bool:
        """Keep for it what is on its way out, if that is enough."""
        if not self._books.is_any_coming:
            return False
        later = self._books.later
        nodes = None
        if later.account.lacks(workload.tenant, option.charge) is None:
            nodes = later.place(workload, option.choice)
        if nodes is None:
            return False
        deadlines = [held.pod.reclaim_by for held in self._books.coming if held.pod.reclaim_by is not None]
        deadlines += [back.deadline for back in self.outcome.backs]
        self._reclaiming(workload, option, nodes, max(deadlines, default=None))
        return True

    def _reclaims(self, workload: Workload, option: Option) -> bool:
        """Take back what it needs, and keep it for it."""
        found = self._search(workload, option, self._now)
        if found is None:
            return False
        rules = self._rules(workload)
        deadline = self._now + rules.reclaim_within
        for group in found.groups:
            staying = tuple(held.pod for held in self._books.staying(group))
            gone = replace(group, pods=staying)
            message = verdict.taken_back(found.cause, deadline)
            self.outcome.backs.append(Back(gone, found.cause, deadline, message, workload.tenant))
            self._books.comes(gone)
            self._candidates.gone(gone)
        self._reclaiming(workload, option, found.nodes, deadline)
        return True

    def _search(self, workload: Workload, option: Option, at: float) -> Found | None:
        """Whose borrowed quota would do."""
        key = (workload.tenant, workload.shape, workload.topology, option.choice.name, at)
        if (
            option.lack == "own"
            or key in self._futile
            or any((workload.tenant, line) in self._stalled for line in option.charge)
        ):
            return None
        if not self._books.later.account.borrowers(workload.tenant, option.charge):
            return None
        if self._searches <= 0 or self._candidates.budget <= 0:
            # Beyond the bounds of this turn: there will be another one at once.
            self.outcome.times.append(self._now + 1.0)
            return None
        ahead = any(pool in self._quota_heads for pool in self._pools(workload, option.charge))
        self._searches -= 1
        fair = self._rules(workload).fair_preemption and not ahead
        found = Search(self._books, self._candidates, workload, option.choice, option.charge, at, fair).run()
        if found is None or not found.groups:
            self._futile.add(key)
            return None
        return found

    def _reclaiming(self, workload: Workload, option: Option, nodes: Sequence[str], deadline: float | None) -> None:
        """It waits for what is on its way out."""
        lack = option.lack
        if lack is None:
            text = verdict.comes_back(verdict.asks(workload.asks), None, 0, self._rules(workload).reclaim_within, mine=False)
        else:
            line, missing = self._missing(workload, option)
            mine = self._books.now.account.within_nominal(workload.tenant, option.charge)
            before = self._of_quota(workload, option).message
            text = verdict.comes_back(before, line, missing, self._rules(workload).reclaim_within, mine=mine)
        self._keep(workload, option, nodes, None)
        self._say(workload, Verdict(Why.RECLAIMING, text, deadline))

    def _hold_place(self, workload: Workload, option: Option) -> bool:
        """It is the first that waits for this, or it is behind the one that is; whether it is the first."""
        first = self._is_first(workload, option)
        said = self._of_room(workload, option) if option.lack is None else self._of_quota(workload, option)
        if first:
            said = self._first(workload, option, said)
        led = (workload.tenant, str(option.lack))
        self._say(workload, said if first or led not in self._led else self._behind(workload, option))
        self._led.add(led)
        return first

    def _behind(self, workload: Workload, option: Option) -> Verdict:
        if option.lack is None:
            return verdict.behind(workload)
        line, _ = self._missing(workload, option)
        return verdict.behind(workload, line, self._books.now.account.entry(workload.tenant, line))

    def _is_first(self, workload: Workload, option: Option) -> bool:
        """Whether nobody waits for this quota or room yet; from now on somebody does."""
        waits: set[tuple[str, Line]]
        if option.lack == "own":
            waits, heads = {(workload.tenant, self._missing(workload, option)[0])}, self._own_heads
        elif option.lack == "cohort":
            waits, heads = set(self._pools(workload, option.charge)), self._quota_heads
        else:
            waits, heads = {("", line) for line in option.charge or [("", "")]}, self._room_heads
        if waits & heads:
            return False
        heads |= waits
        return True

    def _first(self, workload: Workload, option: Option, said: Verdict) -> Verdict:
        """Keep for the first one what it waits for, and say when it can start, if anybody can know."""
        start: forecast.Start | None = None
        nodes: tuple[str, ...] = ()
        until: float | None = None
        if self._forecasts > 0:
            self._forecasts -= 1
            start = forecast.by_known_ends(self._books, workload, option.choice, option.charge)
        if start is not None:
            nodes, until = () if option.lack == "own" else start.nodes, start.at
            said = replace(said, message=verdict.starts(said.message, start.at), starts_by=start.at)
        else:
            ripe = self._search(workload, option, float("inf"))
            if ripe is not None:
                self.outcome.times.append(ripe.ripe)
                nodes = ripe.nodes if option.lack is None else ()
                by = ripe.ripe + self._rules(workload).reclaim_within
                said = replace(said, message=verdict.ripens(said.message, ripe.ripe), starts_by=by)
            elif option.lack is None:
                nodes = forecast.nodes_to_wait_for(self._books, workload, option.choice, self._candidates.nodes)
        self._keep(workload, option, nodes, until)
        return said

    def _keep(self, workload: Workload, option: Option, nodes: Sequence[str], until: float | None) -> None:
        done = Done(workload, option.charge, nodes, reserved=True, own=option.lack == "own")
        self._books.do(done)
        self._kept.append((done, until))

    def _missing(self, workload: Workload, option: Option) -> tuple[Line, int]:
        """The line that it lacks, and how much of it."""
        entries = dict(self._books.now.account.lines(workload.tenant))
        line = verdict.lacking(option.charge, entries) or min(option.charge)
        return line, option.charge[line] - entries[line].room()

    def _of_quota(self, workload: Workload, option: Option) -> Verdict:
        line, _ = self._missing(workload, option)
        entry = self._books.now.account.entry(workload.tenant, line)
        return verdict.of_quota(option.lack or "own", line, option.charge[line], entry)

    def _of_room(self, workload: Workload, option: Option) -> Verdict:
        short = self._explain(workload, option.choice)
        return verdict.behind(workload) if short is None else verdict.of_room(short, workload.topology, option.choice.name)

    def _pools(self, workload: Workload, charge: Charge) -> list[tuple[str, Line]]:
        cohort = self._snapshot.tenants[workload.tenant].cohort if workload.tenant in self._snapshot.tenants else ""
        return [(cohort or f"/{workload.tenant}", line) for line in charge]

    def _rules(self, workload: Workload) -> Rules:
        tenant = self._snapshot.tenants.get(workload.tenant)
        return self._snapshot.rules.get(tenant.cohort if tenant else "", Rules())

    def _say(self, workload: Workload, said: Verdict) -> None:
        if workload.is_rest:
            said = verdict.unplaced_rest(said, workload)
        said = verdict.remarked(said, workload)
        for pod in workload.pods:
            self.outcome.verdicts[pod.uid] = said


_SEVERITY: Final[Mapping[Lack | None, int]] = {None: 0, "cohort": 1, "own": 2, "never": 3}


def _narrowed(choice: Choice, workload: Workload, key: str, domain: str) -> Choice:
    """The same choice in one domain alone."""
    flavor = choice.flavor
    resource = flavor.resource if flavor else next(iter(sorted(name for name in workload.asks if "/" in name)), "")
    labels = {**(flavor.node_labels if flavor else {}), key: domain}
    return replace(choice, flavor=Flavor(choice.name, resource, labels))
