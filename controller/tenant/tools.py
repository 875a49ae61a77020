"""The dependencies of the reconciler and of the facets that every installation has."""

from collections import defaultdict
from collections.abc import MutableMapping
from dataclasses import dataclass, field

from bulkhead.kube.client import Client
from bulkhead.work.clock import Clock
from controller.host.hostranges import HostRanges
from controller.host.owned import Owned
from controller.inside.access import PlaneAccess
from controller.inside.budget import Budget
from controller.pki.issue import Known
from controller.pki.renewals import Renewals
from controller.settings import Settings
from controller.tenant.apply import Applier
from controller.tenant.interior import Interior
from controller.tenant.tracing import CreationTraces


@dataclass(frozen=True, slots=True)
class Tools:
    """Created once per controller."""

    client: Client
    owned: Owned
    ranges: HostRanges
    settings: Settings
    clock: Clock
    planes: PlaneAccess
    budget: Budget  # shared by all planes
    applier: Applier
    interior: Interior
    renewals: Renewals
    traces: CreationTraces
    # What was read from planes' certificates, by tenant.
    known: MutableMapping[str, Known] = field(default_factory=lambda: defaultdict(Known))
