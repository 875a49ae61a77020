"""How a workload may be charged, and its place among those that wait.

    its flavors; those of its gang, if it completes one ──> choices ──> a charge each ──> turn: within nominal, else
                                                                                         completing a gang, else by share

Nothing here admits a workload, and nothing reserves anything for it.
"""

from collections.abc import Mapping
from dataclasses import replace

from bulkhead.ledger.account import Charge
from bulkhead.ledger.books import Books
from bulkhead.ledger.flavors import Choice
from bulkhead.ledger.gangs import is_staying
from bulkhead.ledger.model import Flavor, Node, Pod, Snapshot
from bulkhead.ledger.order import Group, Turn, Workload


class Charging:
    """The ways to charge the workloads of one turn."""

    def __init__(self, snapshot: Snapshot, books: Books, nodes: Mapping[str, Node]) -> None:
        self._snapshot, self._books, self._nodes = snapshot, books, nodes
        # For the missing members of gangs: how they may be charged, and the pods of the gang that stay.
        self._rested: dict[int, tuple[Choice, ...]] = {}
        self._mates: dict[int, list[Pod]] = {}
        # The turn at which a workload was judged, if that was not the turn of its best flavor.
        self._turns: dict[int, Turn] = {}

    def choices(self, workload: Workload) -> tuple[Choice, ...]:
        """The flavors that its tenant may use for it, in the order of preference; those of its gang if it completes one."""
        rested = self._rested.get(id(workload))
        if rested is not None:
            return rested
        choices = self._books.flavors.choices(workload.tenant, workload.asks)
        return tuple(choice for choice in choices if workload.flavor in {"", choice.name}) or choices

    def charged(self, workload: Workload) -> list[tuple[Choice, Charge]]:
        """Its choices with their charges, those within nominal first."""
        charged = [(choice, self._books.charge(workload, choice)) for choice in self.choices(workload)]
        if len(charged) > 1:
            # They gave the workload its place in the queue.
            charged.sort(key=lambda charged: not self._books.now.account.within_nominal(workload.tenant, charged[1]))
        return charged

    def charges(self, workload: Workload) -> list[Charge]:
        """What a workload may be charged, which decides its place in the queue; without flavors that have no node for it."""
        choices = self.choices(workload)
        if len(choices) > 1:
            choices = tuple(choice for choice in choices if self.could_ever(workload, choice)) or choices
        return [self._books.charge(workload, choice) for choice in choices]

    def could_ever(self, workload: Workload, choice: Choice) -> bool:
        """Whether the present nodes have room for it if nothing else runs on them but the staying pods of its gang."""
        return self._books.could_ever(workload, choice, self._mates.get(id(workload), ()))

    def joins(self, workload: Workload, group: Group) -> None:
        """Restrict the missing members of a gang to the gang's flavor and domain."""
        pods = [pod for pod in group.pods if is_staying(pod)]
        choices = list(self.choices(workload))
        topology = workload.topology
        nodes = [self._nodes.get(pod.node or pod.pinned) for pod in pods]
        if topology is not None and topology.required and nodes:
            domain = next(
                (node.labels[topology.key] for node in nodes if node is not None and topology.key in node.labels), None
            )
            if domain is not None:
                choices = [_narrowed(choice, workload, topology.key, domain) for choice in choices]
        self._rested[id(workload)] = tuple(choices)
        self._mates[id(workload)] = pods

    def is_own(self, workload: Workload) -> bool:
        """Whether its tenant stays within nominal by at least one way to charge it."""
        account = self._books.now.account
        return any(account.within_nominal(workload.tenant, charge) for _, charge in self.charged(workload))

    def turn(self, workload: Workload, charge: Charge) -> Turn:
        """Its place among all waiting workloads with this charge."""
        account = self._books.now.account
        if account.within_nominal(workload.tenant, charge):
            return 0, 0.0
        return (1, 0.0) if self._comes_back(workload, charge) else (2, account.share(workload.tenant, charge))

    def is_out_of_turn(self, workload: Workload, charge: Charge) -> bool:
        """Whether its turn was for another flavor, which is not available, and other workloads precede it for this one."""
        if workload.is_rest:
            return False
        turn = self.turn(workload, charge)
        had = self._turns.get(id(workload))
        if had is None:
            had = min(self.turn(workload, charge) for _, charge in self.charged(workload))
        if turn <= had:
            return False
        self._turns[id(workload)] = turn
        return True

    def _comes_back(self, workload: Workload, charge: Charge) -> bool:
        """Whether it completes an admitted gang, and therefore precedes other borrowers.

        This needs a cohort without fair preemption, so that no borrower could reclaim it at once. Its tenant must not borrow
        more than it did when the gang was admitted.
        """
        if workload.rest_of is None or self._snapshot.rules_for(workload.tenant).fair_preemption:
            return False
        had = dict(workload.rest_of.borrowed)
        over = self._books.now.account.beyond(workload.tenant, charge)
        return all(amount <= had.get(resource, 0) for (_, resource), amount in over.items())


def _narrowed(choice: Choice, workload: Workload, key: str, domain: str) -> Choice:
    """The same choice, restricted to one domain."""
    flavor = choice.flavor
    resource = flavor.resource if flavor else next(iter(sorted(name for name in workload.asks if "/" in name)), "")
    labels = {**(flavor.node_labels if flavor else {}), key: domain}
    return replace(choice, flavor=Flavor(choice.name, resource, labels))
