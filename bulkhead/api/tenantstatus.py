"""The status of a Tenant, as the controller writes it and the command line reads it. Types only."""

from typing import Annotated, Literal

from pydantic import Field

from bulkhead.api.deletion import Deletion
from bulkhead.api.fields import ApiModel, Count, DnsName, KubernetesVersion, Moment, Quantity, text
from bulkhead.api.podresources import MOST_DEVICES
from bulkhead.api.slurm import SlurmStatus


class Condition(ApiModel):
    """One aspect of the tenant's state."""

    type: Annotated[str, text(64)] = Field(description="What the condition is about; Ready is the summary.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: Annotated[str, text(64)] = Field(description="The reason, one of a fixed set of words that programs may rely on.")
    message: Annotated[str, Field(max_length=4096)] = Field("", description="The reason in words for people.")
    last_transition_time: Moment = Field(description="When the status last changed.")
    observed_generation: Annotated[int, Field(ge=0)] = Field(
        0, description="Generation of the spec that this condition refers to."
    )


class Versions(ApiModel):
    """What runs."""

    kubernetes: KubernetesVersion | None = Field(None, description="Version of the tenant's API server.")
    etcd: Annotated[str, text(32)] | None = Field(None, description="Version of the tenant's etcd.")
    bulkhead: Annotated[str, text(32)] | None = Field(None, description="Version of the syncer.")


class AppliedClass(ApiModel):
    """The class as it was when it was last applied."""

    name: DnsName = Field(description="Name of the TenantClass.")
    uid: Annotated[str, text(64)] | None = Field(None, description="UID of the TenantClass.")
    generation: Annotated[int, Field(ge=0)] | None = Field(None, description="Its generation when it was applied.")
    spec: dict[str, object] | None = Field(
        None,
        description="Its spec when it was applied.",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )


# As many of each as a quota takes, and as many names as a class may list.
_Gpus = Annotated[int, Field(ge=0, le=8 * MOST_DEVICES)]


class Gpus(ApiModel):
    """GPUs of the tenant, all GPU resources of its class together."""

    used: _Gpus = Field(0, description="GPUs that its pods hold now.")
    limit: _Gpus = Field(0, description="GPUs that it may hold.")
    borrowed: _Gpus | None = Field(None, description="Used GPUs beyond its own quota, if it has a cohort.")
    lent: _Gpus | None = Field(None, description="GPUs of its own quota that others of its cohort use.")
    summary: Annotated[str, text(32)] | None = Field(None, description="Used and limit in one text, for tables: 3/8.")


class QuotaStanding(ApiModel):
    """What the tenant has of one resource in its cohort."""

    name: Annotated[str, text(317)] = Field(description="The resource, with @ and the flavor where it has flavors.")
    nominal: Quantity = Field(description="What it may use at any time.")
    ceiling: Quantity = Field(description="The most that it may use: nominal, and what it may borrow.")
    used: Quantity = Field(description="What its pods use.")
    borrowed: Quantity = Field(description="What it uses beyond nominal.")
    lent: Quantity = Field(description="What others use of its nominal quota.")


class DedicatedNodes(ApiModel):
    """Nodes of the host that are the tenant's alone."""

    nodes: Count = Field(0, description="Their number.")
    gpus: Count = Field(0, description="GPUs on these nodes, whichever quota they count against.")
    names: Annotated[list[DnsName], Field(max_length=64)] | None = Field(
        None, description="The first of them by name.", json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    waiting: Count = Field(0, description="Nodes of the pool that still run pods of others.")


class TenantStatus(ApiModel):
    """What the controller reports."""

    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Generation of the spec that the controller last acted on."
    )
    refused_generation: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="The observed generation, only while its spec is refused and was never accepted: the spec may then be "
        "taken back, with sizes and names that cannot change otherwise.",
    )
    conditions: Annotated[list[Condition], Field(max_length=32)] | None = Field(
        None,
        description="The tenant's state, one entry for each aspect; Ready summarises them.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    endpoint: Annotated[str, text(512)] | None = Field(None, description="Address of the tenant's API server.")
    tls_server_name: DnsName | None = Field(
        None,
        description="Server name (SNI) that clients use and find in the certificate, if it differs from the endpoint's host.",
    )
    hostnames: Annotated[list[DnsName], Field(max_length=32)] | None = Field(
        None,
        description="Names of the API server outside of the host; its certificate contains all of them.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    certificate_authority: Annotated[str, text(8192)] | None = Field(
        None, description="Certificate authority of the tenant's API server, PEM."
    )
    versions: Versions | None = Field(None, description="What runs.")
    class_: AppliedClass | None = Field(None, alias="class", description="The class as it was last applied.")
    gpus: Gpus | None = Field(None, description="GPUs of the tenant: used and limit.")
    quota: Annotated[list[QuotaStanding], Field(max_length=128)] | None = Field(
        None,
        description="Quota and use of each resource that its cohort lends, as the ledger last counted.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    dedicated: DedicatedNodes | None = Field(None, description="Nodes that are dedicated to the tenant, if it requests any.")
    slurm: SlurmStatus | None = Field(None, description="The tenant's Slurm cluster, if it has one.")
    service_slice: Annotated[str, text(43)] | None = Field(
        None, description="Range that the addresses of the tenant's Services come from."
    )
    plane_identity: Annotated[str, text(64)] | None = Field(
        None, description="Identity of the plane: the same in its record, in its snapshots and in the issuer of its tokens."
    )
    deletion: Deletion | None = Field(None, description="How the Tenant is deleted, if its class says anything about it.")
    plane_cluster_uid: Annotated[str, text(64)] | None = Field(
        None, alias="planeClusterUID", description="UID of the tenant's kube-system namespace: the identity of its data."
    )
