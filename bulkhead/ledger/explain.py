"""Tells waiting workloads why they wait: the sentences of `verdict` with the numbers of one turn.

    workload, what it lacks ──> quota of its tenant, room on nodes (looked up once for each shape, bounded) ──> PodVerdict

This module decides nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from bulkhead.ledger import verdict
from bulkhead.ledger.books import Books
from bulkhead.ledger.flavors import Choice
from bulkhead.ledger.heads import Option
from bulkhead.ledger.model import Flavor, Line, PodVerdict
from bulkhead.ledger.order import Workload
from bulkhead.ledger.place import Shortfall

# Limits of one turn; workloads beyond them get a shorter message.
_MOST_EXPLAINED: Final = 256
_MOST_EXPLAINED_OF_ONE_TENANT: Final = 32


class Answers:
    """The verdicts of one turn, by the pod's UID."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self.verdicts: dict[str, PodVerdict] = {}
        self._shortfalls: dict[tuple[object, ...], Shortfall] = {}
        self._explained: dict[str, int] = {}

    def say(self, workload: Workload, answer: PodVerdict) -> None:
        """Record the same verdict for all pods of a workload."""
        if workload.is_rest:
            answer = verdict.unplaced_rest(answer, workload)
        answer = verdict.remarked(answer, workload)
        for pod in workload.pods:
            self.verdicts[pod.uid] = answer

    def cannot(
        self, workload: Workload, choices: Sequence[Choice], given: Sequence[Choice], flavors: Iterable[Flavor]
    ) -> PodVerdict:
        """Why it could not start even if nothing else ran; of several flavors, for one that its selector and affinity match."""
        if not choices:
            return verdict.flavors_apart(workload)
        # All nodes count as usable: a workload that waits for a node that is down does not wait for another flavor.
        board = self._books.now.board.emptied()
        left = [choice for choice in choices if not choice.name or board.reach(workload.pods, choice.flavor)]
        told = min(choices, key=lambda choice: (choice not in left, choice not in given))
        if not left and (nodes := board.reach(workload.pods)):
            kinds = [flavor for flavor in flavors if board.reach(workload.pods, flavor)]
            return verdict.of_no_kind(workload, nodes, kinds, self._nominals(workload.tenant, told.of))
        if told not in given:
            return self.of_quota(workload, Option(told, self._books.charge(workload, told), "never"))
        return self.of_room(workload, told) or verdict.never(workload)

    def missing(self, workload: Workload, option: Option) -> tuple[Line, int]:
        """The line that it lacks, and how much of it."""
        entries = dict(self._books.now.account.lines(workload.tenant))
        line = verdict.lacking(option.charge, entries) or min(option.charge)
        return line, option.charge[line] - entries[line].room()

    def of_quota(self, workload: Workload, option: Option) -> PodVerdict:
        """The quota is too small, or in use."""
        line, _ = self.missing(workload, option)
        entry = self._books.now.account.entry(workload.tenant, line)
        return verdict.of_quota(option.lack or "own", line, option.charge[line], entry)

    def of_room(self, workload: Workload, choice: Choice) -> PodVerdict | None:
        """No nodes have room; None if this turn has reached its limit of explanations."""
        short = self._shortfall(workload, choice)
        return None if short is None else verdict.of_room(short, workload.topology, choice.name)

    def behind(self, workload: Workload, option: Option) -> PodVerdict:
        """Other workloads come first."""
        if option.lack is None:
            return verdict.behind(workload)
        line, _ = self.missing(workload, option)
        return verdict.behind(workload, line, self._books.now.account.entry(workload.tenant, line))

    def comes_back(self, workload: Workload, option: Option, within: float) -> str:
        """The message that what it lacks is being reclaimed."""
        if option.lack is None:
            return verdict.comes_back(verdict.asks(workload.asks), None, 0, within, mine=False)
        line, missing = self.missing(workload, option)
        mine = self._books.now.account.within_nominal(workload.tenant, option.charge)
        return verdict.comes_back(self.of_quota(workload, option).message, line, missing, within, mine=mine)

    def _nominals(self, tenant: str, resources: Iterable[str]) -> dict[Line, int]:
        """A tenant's nominal quota of each flavor of these resources."""
        lines = self._books.now.account.lines(tenant)
        return {line: entry.nominal for line, entry in lines if line[0] and line[1] in resources}

    def _shortfall(self, workload: Workload, choice: Choice) -> Shortfall | None:
        key = (workload.shape, choice.name, workload.topology, workload.tenant)
        found = self._shortfalls.get(key)
        if found is None:
            count = self._explained.get(workload.tenant, 0)
            if count >= _MOST_EXPLAINED_OF_ONE_TENANT or len(self._shortfalls) >= _MOST_EXPLAINED:
                return None
            self._explained[workload.tenant] = count + 1
            found = self._books.now.board.explain(workload.pods, choice.flavor, workload.topology)
            self._shortfalls[key] = found
        return found
