"""The input and the result of an admission. Pure."""

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
from controller.decide.bounds import beyond
from controller.decide.bounds.question import Excess, Question
from controller.decide.dedicated import Finding
from controller.decide.keysets import Answer
from controller.decide.retain import Retained
from controller.existing import Existing
from controller.plane.addresses import Reserved
from controller.plane.spec import PlaneSpec
from controller.refusal import Refusal
from controller.sections import over, section_of
from controller.settings import Settings
from controller.shares.spec import Share, shares_of
from controller.slurm.decide.resolve import UnresolvableError, logins, resolve
from controller.slurm.spec import SlurmSpec


@dataclass(frozen=True)  # without slots: computed values are cached
class Case:
    """One tenant at one moment: its spec, what its class and the installation offer, and what was observed."""

    tenant: Obj
    tenant_class: Obj | None
    settings: Settings
    now: datetime
    runs: bool = False  # whether it was built before, and its namespaces are its own
    existing: Existing = field(default_factory=dict)
    foreign_namespaces: tuple[str, ...] = ()
    nodes: Finding | None = None  # about its dedicated nodes; None before they were looked at
    host_api: tuple[tuple[str, int], ...] = ()
    reserved: tuple[Reserved, ...] | None = None  # the installation's, unless more was observed on the host
    pod_addresses: tuple[str, ...] = ()
    default_storage_classes: tuple[str, ...] = ()  # the host's
    issuers: Mapping[Source, Answer] = field(default_factory=dict)  # what is known about identity providers
    route_version: str = ""  # the version in which the host serves TLSRoutes
    cohort: Obj | None = None  # the Cohort that it names, if that exists
    given: tuple[Member, ...] = ()  # the records of all tenants in cohorts, from their quotas
    retained: Retained | None = None  # the plane that is kept under its name
    # Its last accepted spec; empty if that is unknown, or the present one.
    accepted: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The Tenant's spec."""
        return section_of(self.tenant, "spec")

    @cached_property
    def bounds(self) -> dict[str, Any]:
        """The class's spec; empty if there is no class."""
        return section_of(self.tenant_class or {}, "spec")

    @cached_property
    def providers(self) -> tuple[Provider, ...]:
        """The identity providers whose users may sign in."""
        asked, offered = (section_of(side, "access") for side in (self.spec, self.bounds))
        return providers(str(self.tenant["metadata"]["name"]), asked, offered)

    @cached_property
    def excess(self) -> tuple[Excess, ...]:
        """What the Tenant requests beyond its class, except amounts of resources."""
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
        """The tenant's Slurm cluster, or why it cannot be built as requested; None if it has none."""
        try:
            return resolve(self.tenant, self.tenant_class or {}, self.settings)
        except UnresolvableError as error:
            return error.refusal
        except InvalidQuantityError as error:
            return Refusal(Reason.INVALID_CONFIGURATION, f"spec.scheduling.slurm: {error}")

    @property
    def slurm_logins(self) -> SlurmSpec | None:
        """What still has to reach a Slurm cluster that is refused: its users, and what opens its login nodes."""
        return logins(self.tenant, self.tenant_class or {}) if isinstance(self.slurm, Refusal) else None

    @property
    def class_name(self) -> str:
        """The name of the class that was found."""
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
        """The requested version, offered or not."""
        chosen = self.spec.get("kubernetesVersion") or self.bounds.get("kubernetesVersion")
        return str(chosen) if chosen else next(iter(self.versions), "none")

    @property
    def wants_nodes(self) -> bool:
        """Whether the pool must be dedicated to the tenant."""
        return self.merged("nodes").get("dedicated") is True

    @property
    def pool(self) -> dict[str, str]:
        """The labels of the nodes that the tenant uses."""
        return {str(key): str(value) for key, value in section_of(self.merged("nodes"), "selector").items()}

    def merged(self, section: str) -> dict[str, Any]:
        """A section of the Tenant merged over the same section of its class."""
        return over(section_of(self.bounds, section), section_of(self.spec, section))


@dataclass(frozen=True, slots=True)
class Admitted:
    """What to build for a tenant: what it requests or, for a running tenant, the part that its class allows (`held`)."""

    plane: PlaneSpec  # without a slice of the service range: only admitted tenants get one
    slurm: SlurmSpec | Refusal | None  # a refusal: the cluster stays as it runs, but for `slurm_logins`
    claims_nodes: bool = False
    nodes: Finding | None = None  # about its dedicated nodes, if it claims any
    held: Refusal | None = None
    unapplied: bool = False  # it is refused and was never accepted: what is built is its last accepted spec
    edit: Refusal | None = None  # why the present Tenant was refused: the plane is that of its last accepted spec (`accepted`)
    shares: tuple[Share, ...] = ()
    class_name: str = ""
    slurm_logins: SlurmSpec | None = None
