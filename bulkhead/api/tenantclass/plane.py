"""How large planes are. Types only."""

from typing import Annotated, Literal

from pydantic import Field

from bulkhead.api.fields import (
    LABEL_KEYS,
    OWN_POOL,
    ApiModel,
    Components,
    DnsName,
    LabelKey,
    LabelValue,
    StorageSize,
    StoreQuota,
    StreamRate,
    rules,
)
from bulkhead.api.planevolume import STORAGE_SIZE


class ClassStorage(ApiModel):
    """The volume under a plane's etcd."""

    size: StorageSize = Field(STORAGE_SIZE, description="Size of each etcd volume.")
    max_size: StorageSize | None = Field(None, description="Largest size that a tenant may request; size by default.")
    quota: StoreQuota | None = Field(
        None,
        description="How much data a plane's store may hold, 100Mi to 8Gi and at most a quarter of the volume. By default it "
        "follows the volume: a quarter of it, at least 512Mi and at most 2Gi. The memory limits of etcd, API server and "
        "controller manager follow from it unless they are set. A change restarts planes.",
    )
    max_quota: StoreQuota | None = Field(
        None, description="Largest quota that a tenant may have; by default quota, or what follows from the largest volume."
    )
    class_name: DnsName | None = Field(None, description="StorageClass of the etcd volumes; the host's default if empty.")
    allowed_class_names: Annotated[list[DnsName], Field(max_length=16)] | None = Field(
        None,
        description="StorageClasses that a tenant may choose instead; none by default.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )


class ClassControlPlane(ApiModel):
    """Size of the planes."""

    replicas: Literal[1, 3] = Field(1, description="Number of plane pods: 1, or 3.")
    max_replicas: Literal[1, 3] | None = Field(
        None, description="Maximum number of plane pods that a tenant may request; replicas by default."
    )
    resources: Components | None = Field(None, description="Requests and limits for each component of the plane.")
    max_resources: Components | None = Field(
        None,
        description="The most that a tenant may request instead, for each request and limit; by default the values in "
        "resources, or the built-in ones.",
    )
    cpu_limits: Literal["Proportional", "None"] = Field(
        "Proportional",
        description="CPU limits of components that have none in resources: 40 times their request in whole cores, at least "
        "one, for the API server two; or None. A change restarts planes.",
    )
    log_rate: StreamRate | None = Field(
        None,
        description="Bytes a second that all readers of a tenant's logs together receive through its API server, 1Mi to 99Gi; "
        "4Mi by default. A reader that is too fast waits, and loses nothing. 16Mi pass at once before that.",
    )
    session_rate: StreamRate | None = Field(
        None,
        description="The same for exec (and so kubectl cp), attach and port-forward, both directions together; 8Mi by default. "
        "64Mi pass at once before that.",
    )
    storage: ClassStorage | None = Field(None, description="The volume under a plane's etcd.")
    spread: Literal["Preferred", "Nodes", "Zones"] = Field(
        "Preferred",
        description="How the members of a plane of three lie apart: on different nodes, and in different zones, where that is "
        "possible; on different nodes in any case (Nodes); or in different zones in any case (Zones). A member without such a "
        "place waits. A change restarts planes of three.",
    )
    node_selector: dict[LabelKey, LabelValue] | None = Field(
        None,
        max_length=16,
        description="Labels that a host node must carry to run planes of this class, besides those of the installation "
        "(chart value planes.nodeSelector). A change restarts these planes.",
        json_schema_extra=rules(LABEL_KEYS, OWN_POOL),
    )
