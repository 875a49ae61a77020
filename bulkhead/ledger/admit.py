"""Judges one workload after the other: it is admitted, or it waits, and what it waits for is reserved for it.

    next in order ──> quota and room are available ────────────────────> admitted
                  ──> it ends before those it overtakes can start ─────> admitted
                  ──> it fits once the pods on their way out are gone ─> quota and room reserved
                  ──> it fits once some borrowers' pods are gone ──────> pods reclaimed, quota and room reserved
                  ──> first to wait for this quota or room ────────────> reserved as it comes free
                  ──> else ────────────────────────────────────────────> behind

Reserved capacity is unavailable to later workloads unless they are known to finish first. A workload that waits for its own
tenant's ceiling reserves nothing from other tenants. A workload that can never start reserves nothing. Successors of moved pods
come before all others: quota and room are reserved for them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bulkhead.api import ledger
from bulkhead.api.quotalines import ReservedRoom
from bulkhead.ledger import forecast, verdict
from bulkhead.ledger.account import Charge, Lack
from bulkhead.ledger.books import Books, Done
from bulkhead.ledger.charging import Charging
from bulkhead.ledger.consolidate import Broken, Consolidation
from bulkhead.ledger.explain import Answers
from bulkhead.ledger.flavors import Choice
from bulkhead.ledger.gangs import members
from bulkhead.ledger.heads import Heads, Option
from bulkhead.ledger.homes import Homes, at_home
from bulkhead.ledger.model import Admission, AdmittedGang, Cause, PodVerdict, Rules, Snapshot, Why
from bulkhead.ledger.order import Workload
from bulkhead.ledger.reclaim import Candidates, Found, Search
from bulkhead.ledger.reserved import reserved_rooms
from bulkhead.ledger.takeback import Reclamation, gang_of

# Limits of one turn. Workloads beyond them get a shorter message and wait for the next turn.
_MOST_SEARCHES: Final = 64
_MOST_FORECASTS: Final = 8
_MOST_LIFTED_PODS: Final = 20_000  # pods whose reservations are lifted on trial
# How many seconds the first workload in line keeps its nodes reserved when its start cannot be forecast.
KEPT_WITHOUT_FORECAST_SECONDS: Final = 1800.0
# Allowance for binding, starting and stopping a pod, in addition to its run.
_START_AND_STOP_SECONDS: Final = 60.0


@dataclass(slots=True)
class Outcome:
    """The results of all judgements of one turn."""

    admitted: list[Admission] = field(default_factory=list)
    reclamations: list[Reclamation] = field(default_factory=list)
    # When borrowing pods reach the end of their minimum runtime.
    times: list[float] = field(default_factory=list)
    # First pods of the workloads whose nodes are reserved without a forecast of their start.
    keeps: list[str] = field(default_factory=list)
    # By cohort and lines, the first workload that has quota and no room, if the cohort allows moves.
    broken: dict[tuple[object, ...], Broken] = field(default_factory=dict)


class AdmissionJudge:
    """The judge of one turn."""

    def __init__(self, snapshot: Snapshot, books: Books, candidates: Candidates, now: float) -> None:
        self._snapshot, self._books, self._candidates, self._now = snapshot, books, candidates, now
        self.outcome = Outcome()
        self.charging = Charging(snapshot, books, candidates.nodes)
        self.answers = Answers(books)
        self._heads = Heads(snapshot, books)
        self._homes = Homes(snapshot.moved, books)
        # Gangs that are reclaimed in this turn.
        self._going: set[tuple[object, ...]] = set()
        self._futile: set[tuple[object, ...]] = set()
        self._searches, self._forecasts, self._lifted = _MOST_SEARCHES, _MOST_FORECASTS, _MOST_LIFTED_PODS

    def can_start(self, workload: Workload) -> bool:
        """Whether it could start if nothing else ran on the present nodes; if not, it reserves nothing."""
        choices = self.charging.choices(workload)
        account = self._books.now.account
        given = [choice for choice in choices if account.could_ever(workload.tenant, self._books.charge(workload, choice))]
        if any(self.charging.could_ever(workload, choice) for choice in given):
            return True
        self.answers.say(workload, self.answers.cannot(workload, choices, given, self._rules(workload).flavors))
        return False

    def rule_on(self, workload: Workload) -> Charge | None:
        """Admit a workload, or say why it waits. Returns a charge if it should be judged again at the turn of that charge."""
        if workload.is_rest and gang_of(workload) in self._going:
            self.answers.say(workload, verdict.behind(workload))
            return None
        options: list[Option] = []
        for choice, charge in self.charging.charged(workload):
            lack = self._books.now.account.lacks(workload.tenant, charge)
            nodes = self._books.now.place(workload, choice) if lack is None else None
            if nodes is not None:
                if self.charging.is_out_of_turn(workload, charge):
                    return charge
                self._admit(workload, choice, charge, nodes)
                return None
            options.append(Option(choice, charge, lack))
        if not self._passes(workload, options):
            self._wait(workload, options)
        return None

    def returns(self, workload: Workload) -> bool:
        """Admit the successor of a moved pod, or let it wait until that pod is gone; false if it is not a successor."""
        home = self._homes.of(workload)
        if home is None:
            return False
        if home.is_there:
            # The moved pod still holds the quota; there is none for both.
            within = self._rules(workload).reclaim_within
            text = verdict.comes_back(verdict.asks(workload.asks), None, 0, within, mine=False)
            self.answers.say(workload, PodVerdict(Why.RECLAIMING, text))
            return True
        there = at_home(workload, home)
        for choice, charge in self.charging.charged(workload):
            if self._books.now.account.lacks(workload.tenant, charge) is None:
                nodes = self._books.now.place(there, choice)
                if nodes is not None:
                    self._admit(workload, choice, charge, nodes, home.moved.pod.uid)
                    return True
        return False

    def _admit(self, workload: Workload, choice: Choice, charge: Charge, nodes: Sequence[str], instead: str = "") -> None:
        self._books.do(Done(workload, charge, nodes))
        over = self._books.now.account.borrowed(workload.tenant, charge)
        left = {resource: amount for (_, resource), amount in over.items()}
        gang = self._gang(workload, charge)
        admitted = []
        for pod, node in zip(reversed(workload.pods), reversed(nodes), strict=True):
            borrowed = {name: min(pod.asks.get(name, 0), amount) for name, amount in left.items()}
            borrowed = {name: amount for name, amount in borrowed.items() if amount > 0}
            for name, amount in borrowed.items():
                left[name] -= amount
            bare = tuple(name for name in sorted(pod.asks) if choice.name and "/" in name and name not in choice.of)
            admitted.append(Admission(pod, node, choice.name, borrowed, bare, instead, gang))
        self.outcome.admitted.extend(reversed(admitted))

    def _gang(self, workload: Workload, charge: Charge) -> AdmittedGang | None:
        """The record of a gang that is written at its admission, by which members that return are recognised."""
        if workload.rest_of is not None and workload.rest_of.gang is not None:
            return workload.rest_of.gang
        if not workload.is_gang:
            return None
        beyond = self._books.now.account.beyond(workload.tenant, dict.fromkeys(charge, 0))
        borrowed: dict[str, int] = {}
        for (_, resource), amount in beyond.items():
            borrowed[resource] = borrowed.get(resource, 0) + amount
        return AdmittedGang(
            ledger.seconds(ledger.moment(self._now)) or self._now,
            len(workload.pods),
            workload.topology,
            members(workload.pods),
            tuple(sorted(borrowed.items())),
        )

    def _passes(self, workload: Workload, options: Sequence[Option]) -> bool:
        """Admit it in the room and quota that are reserved for others, if it ends before any of them can start."""
        if workload.lasts is None or workload.is_rest:
            return False
        ends = self._now + workload.lasts + _START_AND_STOP_SECONDS
        kept = self._heads.not_needed_before(ends)
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
        """Find out what it waits for, reserve that for it if possible, and tell it."""
        possible = [
            option for option in options if option.lack != "never" and self.charging.could_ever(workload, option.choice)
        ]
        if not possible:
            self.answers.say(workload, verdict.never(workload))
            return
        kept = next((option for option in possible if self._comes(workload, option)), None)
        kept = kept or next((option for option in possible if self._reclaims(workload, option)), None)
        if kept is None:
            # The option that lacks the least.
            best = min(possible, key=lambda option: _SEVERITY[option.lack])
            kept = best if self._hold_place(workload, best) else None
            if kept is not None:
                self._ripens_otherwise(workload, [option for option in possible if option is not best])
            self._is_broken(workload, best)
        # It may take options without a reservation, too, once they are free: a workload behind it would reclaim them in vain.
        for option in possible:
            if option is not kept:
                self._heads.stall(workload.tenant, option.charge)

    def _is_broken(self, workload: Workload, option: Option) -> None:
        """Note it for consolidation at the end of the turn, unless it starts soon anyway."""
        rules = self._rules(workload)
        if rules.max_moves <= 0 or option.lack is not None or workload.is_rest:
            return
        starts_by = self.answers.verdicts[workload.pods[0].uid].starts_by
        if starts_by is None or starts_by > self._now + rules.reclaim_within:
            cohort = self._snapshot.tenants[workload.tenant].cohort
            broken = Broken(workload, option.choice, option.charge, self._heads.kept_for(workload))
            self.outcome.broken.setdefault((cohort, *sorted(option.charge)), broken)

    def consolidate(self) -> None:
        """Plan moves for workloads that have quota and no room. No workload is judged after this."""
        if not self.outcome.broken:
            return
        consolidation = Consolidation(self._snapshot, self._books, self._candidates, self._now)
        for broken in self.outcome.broken.values():
            workload, within = broken.workload, self._rules(broken.workload).reclaim_within
            deadline, moves = self._now + within, consolidation.moves(broken)
            message = verdict.taken_back(Cause.MOVED)
            self.outcome.reclamations.extend(
                Reclamation(move.group, Cause.MOVED, deadline, message, workload.tenant, move.to) for move in moves
            )
            if moves:
                option = Option(broken.choice, broken.charge, None)
                self.answers.say(
                    workload, PodVerdict(Why.RECLAIMING, self.answers.comes_back(workload, option, within), deadline)
                )
        self.outcome.times.extend(consolidation.times)

    def reserved_rooms(self) -> tuple[ReservedRoom, ...]:
        """The free devices that are reserved for waiting workloads. Call it after all judgements and before `consolidate`."""
        return reserved_rooms(self._books, self._heads.reservations())

    def _comes(self, workload: Workload, option: Option) -> bool:
        """Reserve for it what pods on their way out hold, if that is enough; whether it was."""
        if not self._books.is_any_coming:
            return False
        later = self._books.later
        nodes = None
        if later.account.lacks(workload.tenant, option.charge) is None:
            nodes = later.place(workload, option.choice)
        if nodes is None:
            return False
        deadlines = [held.pod.reclaim_by for held in self._books.coming if held.pod.reclaim_by is not None]
        deadlines += [reclamation.deadline for reclamation in self.outcome.reclamations]
        self._reclaiming(workload, option, nodes, max(deadlines, default=None))
        return True

    def _reclaims(self, workload: Workload, option: Option) -> bool:
        """Reclaim what it needs from borrowers, and reserve it; whether that is possible now."""
        found = self._search(workload, option, self._now)
        if found is None:
            return False
        rules = self._rules(workload)
        deadline = self._now + rules.reclaim_within
        for group in found.groups:
            staying = tuple(held.pod for held in self._books.staying(group))
            gone = replace(group, pods=staying)
            message = verdict.taken_back(found.cause)
            self.outcome.reclamations.append(Reclamation(gone, found.cause, deadline, message, workload.tenant))
            self._books.comes(gone)
            self._candidates.gone(gone)
            if gone.is_gang:
                self._going.add(gang_of(gone))
        self._reclaiming(workload, option, found.nodes, deadline)
        return True

    def _search(self, workload: Workload, option: Option, at: float) -> Found | None:
        """Find borrowers' pods whose reclaim lets it start, without pods that are in their minimum runtime at `at`."""
        key = (workload.tenant, workload.shape, workload.topology, option.choice.name, at)
        if option.lack == "own" or key in self._futile or self._heads.is_stalled(workload.tenant, option.charge):
            return None
        if not self._books.later.account.borrowers(workload.tenant, option.charge):
            return None
        if self._searches <= 0 or self._candidates.budget <= 0:
            # This turn has reached its limits; the next one follows after a second.
            self.outcome.times.append(self._now + 1.0)
            return None
        self._searches -= 1
        fair = self._rules(workload).fair_preemption and not self._heads.is_behind(workload, option.charge)
        found = Search(self._books, self._candidates, workload, option.choice, option.charge, at, fair).run()
        if found is None or not found.groups:
            self._futile.add(key)
            return None
        return found

    def _reclaiming(self, workload: Workload, option: Option, nodes: Sequence[str], deadline: float | None) -> None:
        """Reserve nodes for it, and tell it that it waits for a reclaim."""
        text = self.answers.comes_back(workload, option, self._rules(workload).reclaim_within)
        self._heads.keep(workload, option, nodes, None)
        self.answers.say(workload, PodVerdict(Why.RECLAIMING, text, deadline))

    def _hold_place(self, workload: Workload, option: Option) -> bool:
        """Reserve what it waits for if it is the first to wait for that, and tell it; returns whether it is the first."""
        answers = self.answers
        missing = answers.missing(workload, option)[0] if option.lack == "own" else None
        first = self._heads.is_first(workload, option, missing)
        leads = self._heads.leads(workload, option)
        if not first and not leads:
            answers.say(workload, answers.behind(workload, option))
            return False
        if option.lack is None:
            answer = answers.of_room(workload, option.choice) or verdict.behind(workload)
        else:
            answer = answers.of_quota(workload, option)
        answers.say(workload, self._first(workload, option, answer) if first else answer)
        return first

    def _first(self, workload: Workload, option: Option, answer: PodVerdict) -> PodVerdict:
        """Reserve what the first workload waits for, and add to its verdict when it can start, if that can be known."""
        nodes: tuple[str, ...] = ()
        until: float | None = None
        start = self._forecast(workload, option)
        if start is not None:
            nodes, until = () if option.lack == "own" else start.nodes, start.at
            answer = replace(answer, message=verdict.starts(answer.message, start.at), starts_by=start.at)
        else:
            ripe = self._search(workload, option, float("inf"))
            if ripe is not None:
                self.outcome.times.append(ripe.ripe)
                nodes = ripe.nodes if option.lack is None else ()
                by = ripe.ripe + self._rules(workload).reclaim_within
                answer = replace(answer, message=verdict.ripens(answer.message, ripe.ripe), starts_by=by)
            elif option.lack is None:
                nodes = self._without_forecast(workload, option)
        self._heads.keep(workload, option, nodes, until)
        return answer

    def _ripens_otherwise(self, workload: Workload, options: Iterable[Option]) -> None:
        """Note when pods reach their minimum runtime whose reclaim lets it start with another flavor than it waits for."""
        for option in options:
            ripe = self._search(workload, option, float("inf"))
            if ripe is not None:
                self.outcome.times.append(ripe.ripe)

    def _without_forecast(self, workload: Workload, option: Option) -> tuple[str, ...]:
        """The nodes to reserve for it when no forecast exists; none after half an hour.

        The limit is there because a reserved device idles, and the others that the workload needs may never become free.
        """
        first = workload.pods[0].uid
        self.outcome.keeps.append(first)
        ends = self._snapshot.kept_since.get(first, self._now) + KEPT_WITHOUT_FORECAST_SECONDS
        # A workload that allows only one node has chosen to wait for the pods there; others may use the rest of that node.
        is_pinned = _chose(workload) and self._books.now.board.reach(workload.pods, option.choice.flavor) <= 1
        if ends <= self._now or is_pinned:
            return ()
        self.outcome.times.append(ends)
        return forecast.nodes_to_wait_for(self._books, workload, option.choice, self._candidates.nodes)

    def _forecast(self, workload: Workload, option: Option) -> forecast.Start | None:
        if self._forecasts <= 0:
            return None
        self._forecasts -= 1
        return forecast.by_known_ends(self._books, workload, option.choice, option.charge)

    def _rules(self, workload: Workload) -> Rules:
        return self._snapshot.rules_for(workload.tenant)


_SEVERITY: Final[Mapping[Lack | None, int]] = {None: 0, "cohort": 1, "own": 2, "never": 3}


def _chose(workload: Workload) -> bool:
    """Whether its pods restrict their nodes by a selector or by affinity."""
    return any(pod.needs.selector or pod.needs.terms for pod in workload.pods)
