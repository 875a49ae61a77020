"""Nodes that are dedicated to the tenant. `controller.host.dedication` marks them; this facet reports its finding."""

from dataclasses import dataclass, replace

from controller.decide.case import Admitted, Case
from controller.host.dedication import Dedication
from controller.tenant.facets.nodes.report import report
from controller.tenant.status import Report
from controller.tenant.turn import Facet, Seen


@dataclass(frozen=True, slots=True)
class Nodes(Facet):
    """Passes the finding to the admission and to the report."""

    name = "nodes"
    dedication: Dedication

    def consider(self, case: Case, *, accepted: bool) -> Case:
        """The finding for the tenant."""
        return replace(case, nodes=self.dedication.finding(case.tenant, accepted=accepted))

    def awaits(self, admitted: Admitted) -> bool:
        """Whether the tenant's nodes have not been looked at yet; a held tenant goes on with the nodes that it has."""
        return admitted.claims_nodes and admitted.nodes is None and admitted.held is None

    def report(self, seen: Seen) -> Report:
        """The nodes as they were found at the admission."""
        nodes = seen.turn.admitted.nodes
        found = nodes if nodes is not None and nodes.refusing is None else None
        return report(found, unseen=seen.turn.held and seen.turn.spec.nodes.dedicated)
