"""How tenants may schedule: modes, Slurm and PodGroups. Types only."""

from typing import Annotated, Literal

from pydantic import Field

from bulkhead.api.fields import ApiModel
from bulkhead.api.slurm import MOST_NODES


class ClassSsh(ApiModel):
    """The way in to tenants' login nodes."""

    certificates_only: bool = Field(
        False, description="Whether login nodes accept only certificates (bulkhead ssh), and no SSH key of a Tenant by itself."
    )
    agent_forwarding: bool = Field(False, description="Whether certificates allow agent forwarding (ssh -A).")
    port_forwarding: bool = Field(
        False, description="Whether certificates allow port forwarding (ssh -L, -R, -D), which editors and notebooks need."
    )


class ClassSlurm(ApiModel):
    """Limits for the Slurm clusters of tenants."""

    max_nodes: Annotated[int, Field(ge=0, le=MOST_NODES)] | None = Field(
        None, description="Most workers that all node sets of a tenant may have together."
    )
    max_grace_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = Field(
        None,
        description="Most seconds that jobs may run on a worker that is being removed (lease.graceSeconds). It also caps the "
        "default of tenants that do not set one.",
    )
    ssh: ClassSsh | None = Field(None, description="SSH access to login nodes.")


class ClassScheduling(ApiModel):
    """How tenants of this class may schedule."""

    modes: Annotated[list[Literal["Kubernetes", "Slurm"]], Field(min_length=1, max_length=2)] | None = Field(
        None,
        description="Modes that tenants may choose; all by default.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    slurm: ClassSlurm | None = Field(None, description="Limits for the Slurm clusters of tenants.")
    gangs: bool | None = Field(
        None,
        description="Whether pods of a gang start together or not at all, by the platform's own check of room on nodes; on "
        "hosts of any version, with or without PodGroups.",
    )
    pod_groups: bool | None = Field(
        None,
        description="Whether tenants have the PodGroups of Kubernetes 1.36 (alpha): the host's scheduler places the pods of a "
        "group together or not at all. The host must serve scheduling.k8s.io/v1alpha2.",
    )
