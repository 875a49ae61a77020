"""What an admission looks at, and what comes out of one. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from bulkhead.api.conditions import Reason
from bulkhead.api.objects import Obj
from bulkhead.api.providers import Provider, Source, providers
from bulkhead.api.quantity import InvalidQuantityError
from bulkhead.ledger.model import Tenant as Member
from controller.decide.bounds import Excess, Question, beyond
from controller.decide.dedicated import Finding
from controller.decide.keysets import Answer
from controller.existing import Existing
from controller.plane.addresses import Reserved
from controller.plane.spec import PlaneSpec
from controller.refusal import Refusal
from controller.sections import over, section_of
from controller.settings import Settings
from controller.shares.spec import Share, shares_of
from controller.slurm.decide.resolve import UnresolvableError, resolve
from controller.slurm.spec import SlurmSpec


@dataclass(frozen=True)  # without slots: what follows from the fields is kept after it was asked for
class Case:
    """One tenant at one moment: what it asks for, what its class and the installation offer, and what was observed of it."""

    tenant: Obj
    tenant_class: Obj | None
    settings: Settings
    now: datetime
    runs: bool = False  # whether it was built once, and is its own
    existing: Existing = field(default_factory=dict)
    foreign_namespaces: tuple[str, ...] = ()
    nodes: Finding | None = None  # what was found of nodes of its own; None before they were looked at
    host_api: tuple[tuple[str, int], ...] = ()
    reserved: tuple[Reserved, ...] | None = None  # the installation's, unless more was observed of the host
    pod_addresses: tuple[str, ...] = ()
    issuers: Mapping[Source, Answer] = field(default_factory=dict)  # what is known of identity providers
    route_version: str = ""  # in which the host serves TLSRoutes
    cohort: Obj | None = None  # the Cohort that it names, where there is one
    given: tuple[Member, ...] = ()  # what all tenants were given, as their quotas note it

    @cached_property
    def spec(self) -> dict[str, Any]:
        """What the Tenant says."""
        return section_of(self.tenant, "spec")

    @cached_property
    def bounds(self) -> dict[str, Any]:
        """What the class says; nothing where there is none."""
        return section_of(self.tenant_class or {}, "spec")

    @cached_property
    def providers(self) -> tuple[Provider, ...]:
        """The identity providers whose users may sign in."""
        asked, offered = (section_of(side, "access") for side in (self.spec, self.bounds))
        return providers(str(self.tenant["metadata"]["name"]), asked, offered)

    @cached_property
    def excess(self) -> tuple[Excess, ...]:
        """What the Tenant asks for beyond its class, but for amounts of resources."""
        settings = self.settings
        return beyond(
            Question(
                self.spec,
                self.bounds,
                settings.storage_class,
                tenant=str(self.tenant["metadata"]["name"]),
                domains=settings.exposure_domains,
                has_proxy=bool(settings.exposure_proxy),
            )
        )

    @cached_property
    def slurm(self) -> SlurmSpec | Refusal | None:
        """The tenant's Slurm cluster, or why it cannot be built as it is asked for; None when it has none."""
        try:
            return resolve(self.tenant, self.tenant_class or {}, self.settings)
        except UnresolvableError as error:
            return error.refusal
        except InvalidQuantityError as error:
            return Refusal(Reason.INVALID_CONFIGURATION, f"spec.scheduling.slurm: {error}")

    @property
    def class_name(self) -> str:
        """The class that was found."""
        return str(section_of(self.tenant_class or {}, "metadata").get("name", ""))

    @property
    def shares(self) -> tuple[Share, ...]:
        """What the host shares with the tenant."""
        return shares_of(self.spec, self.bounds)

    @cached_property
    def versions(self) -> tuple[str, ...]:
        """The versions of Kubernetes that both the class and the installation offer."""
        offered = self.settings.kubernetes_versions
        listed = self.bounds.get("kubernetesVersions")
        return tuple(version for version in offered if version in listed) if listed else offered

    @cached_property
    def version(self) -> str:
        """The version that is asked for, offered or not."""
        chosen = self.spec.get("kubernetesVersion") or self.bounds.get("kubernetesVersion")
        return str(chosen) if chosen else next(iter(self.versions), "none")

    @property
    def wants_nodes(self) -> bool:
        """Whether the pool is to be the tenant's alone."""
        return self.merged("nodes").get("dedicated") is True

    @property
    def pool(self) -> dict[str, str]:
        """The labels of the nodes that the tenant uses."""
        return {str(key): str(value) for key, value in section_of(self.merged("nodes"), "selector").items()}

    def merged(self, section: str) -> dict[str, Any]:
        """A section of the Tenant over the same section of its class."""
        return over(section_of(self.bounds, section), section_of(self.spec, section))


@dataclass(frozen=True, slots=True)
class Admitted:
    """What is built of a tenant: as it asks for it, or as much of it as its class lets a tenant have that runs (`held`)."""

    plane: PlaneSpec  # without a slice of the service range: that is chosen for admitted tenants only
    slurm: SlurmSpec | Refusal | None  # a refusal: the cluster is left as it runs
    claims_nodes: bool = False
    nodes: Finding | None = None  # of one that claims nodes
    held: Refusal | None = None
    edit: Refusal | None = None  # why the Tenant as it is now was refused: what is built was accepted before (`accepted`)
    shares: tuple[Share, ...] = ()
    class_name: str = ""
