"""Reads the state of a Tenant and runs the admission (`controller.decide.admit`) on it."""

from collections.abc import Sequence
from datetime import datetime

from bulkhead.api.objects import Obj
from controller.decide.accepted import accepted_before, is_unapplied, kept
from controller.decide.admit import admit
from controller.decide.case import Admitted, Case
from controller.refusal import Refusal
from controller.sections import section_of
from controller.tenant.observe import Observed, observe, recorded_spec
from controller.tenant.tools import Tools
from controller.tenant.turn import Facet


class Admitting:
    """Admits tenants, with what their facets add to the case."""

    def __init__(self, tools: Tools, facets: Sequence[Facet]) -> None:
        self._tools = tools
        self._facets = facets

    async def admit(self, tenant: Obj) -> tuple[Observed, Admitted | Refusal]:
        """What to build for the Tenant. If its edit is refused: the previously accepted spec, and the Tenant with that spec."""
        now = self._tools.clock.now()
        observed = await self._observe(tenant, now)
        # Read from the API server: an older copy would revert the tenant to a state before the last accepted edit.
        found = await recorded_spec(self._tools.client, observed.name) if _is_new(tenant) else None
        admission = admit(self._case(observed, before=accepted_before(tenant, found)))
        if isinstance(admission, Admitted) and admission.held is not None:
            found = found or await recorded_spec(self._tools.client, observed.name)
            before = accepted_before(tenant, found)
            if before is not None:
                refusal = admission.held
                observed = await self._observe(before, now)
                admission = kept(admit(self._case(observed, accepted=True)), refusal, found)
        return observed, admission

    async def is_unapplied(self, tenant: Obj, observed: Observed) -> bool:
        """Whether the spec of a Tenant that is refused, and of which nothing is built now, was never accepted."""
        return is_unapplied(tenant, await recorded_spec(self._tools.client, observed.name), built=observed.built)

    def awaits(self, admitted: Admitted) -> bool:
        """Whether a facet still lacks a fact that it needs."""
        return any(facet.awaits(admitted) for facet in self._facets)

    async def _observe(self, tenant: Obj, now: datetime) -> Observed:
        return await observe(self._tools.client, self._tools.owned, self._tools.ranges, tenant, now)

    def _case(self, observed: Observed, *, before: Obj | None = None, accepted: bool = False) -> Case:
        case = Case(
            observed.tenant,
            observed.tenant_class,
            self._tools.settings,
            observed.now,
            runs=observed.built,
            existing=observed.existing,
            foreign_namespaces=observed.foreign_namespaces,
            host_api=observed.host_api,
            reserved=observed.reserved,
            pod_addresses=observed.pod_addresses,
            default_storage_classes=observed.default_storage_classes,
            route_version=self._tools.owned.route_version(),
            cohort=observed.cohort,
            given=observed.given,
            retained=observed.retained,
            accepted=section_of(before or {}, "spec"),
        )
        for facet in self._facets:
            case = facet.consider(case, accepted=accepted)
        return case


def _is_new(tenant: Obj) -> bool:
    """Whether the spec may differ from the last accepted one: it was edited since the last report, or is refused."""
    status, generation = section_of(tenant, "status"), tenant["metadata"].get("generation")
    return "refusedGeneration" in status or status.get("observedGeneration") != generation
