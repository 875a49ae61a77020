"""What is read of the objects in a plane that belong to a Slurm cluster: these fields, of these types, and nothing else.

A tenant may have made any of them itself, or the kind that they are of. What has another shape is refused; what is not named
here never takes memory.
"""

from typing import Annotated, Final

import msgspec

from bulkhead.api import labels
from controller.inside.counted import Counted, Page
from controller.slurm.spec import NAME_LABEL, NODE_SET_LABEL, ORDINAL_LABEL, SPEC_ANNOTATION

Name = Annotated[str, msgspec.Meta(max_length=317)]
Word = Annotated[str, msgspec.Meta(max_length=1024)]
Text = Annotated[str, msgspec.Meta(max_length=32 * 1024)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Part(msgspec.Struct, gc=False, rename="camel", omit_defaults=True):
    """There is one of it in an object."""


class _Many(Counted, frozen=True, rename="camel", omit_defaults=True):
    """There may be any number of it."""


class Condition(_Many, frozen=True):
    """A condition."""

    type: Word = ""
    status: Word = ""
    reason: Word = ""
    message: Text = ""
    last_transition_time: Word | None = None


# -- nodes


class NodeLabels(msgspec.Struct, gc=False, omit_defaults=True):
    """Where a node stands, and what it has."""

    nvlink: Name | None = msgspec.field(default=None, name=labels.NVLINK_DOMAIN)
    clique: Name | None = msgspec.field(default=None, name=labels.GPU_CLIQUE)
    rack: Name | None = msgspec.field(default=None, name=labels.RACK)
    zone: Name | None = msgspec.field(default=None, name=labels.ZONE)
    product: Name | None = msgspec.field(default=None, name=labels.GPU_PRODUCT)


class NodeMeta(_Part):
    """Metadata of a node."""

    name: Name
    labels: NodeLabels | None = None


class NodeSpec(_Part):
    """Whether it takes new pods."""

    unschedulable: bool | None = None


class NodeStatus(_Part):
    """Whether it is well."""

    conditions: list[Condition] | None = None


class Node(_Many, frozen=True):
    """A node."""

    metadata: NodeMeta
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


# -- pods


class PodLabels(msgspec.Struct, gc=False, omit_defaults=True):
    """What a pod is in the cluster."""

    name: Name | None = msgspec.field(default=None, name=NAME_LABEL)
    node_set: Name | None = msgspec.field(default=None, name=NODE_SET_LABEL)
    ordinal: Name | None = msgspec.field(default=None, name=ORDINAL_LABEL)


class PodAnnotations(msgspec.Struct, gc=False, omit_defaults=True):
    """What a worker was made from."""

    spec: Word | None = msgspec.field(default=None, name=SPEC_ANNOTATION)


class PodMeta(_Part):
    """Metadata of a pod."""

    name: Name
    uid: Name = ""
    labels: PodLabels | None = None
    annotations: PodAnnotations | None = None
    creation_timestamp: Word | None = None
    deletion_timestamp: Word | None = None


class PodSpec(_Part):
    """Where it runs."""

    node_name: Name | None = None


class Waiting(_Part):
    """Why a container waits."""

    reason: Word | None = None
    message: Text | None = None


class State(_Part):
    """What a container does."""

    waiting: Waiting | None = None


class Container(_Many, frozen=True):
    """What became of a container."""

    name: Name = ""
    ready: bool = False
    restart_count: Count = 0
    state: State | None = None


class PodStatus(_Part):
    """What became of a pod."""

    phase: Word | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[Container] | None = None


class Pod(_Many, frozen=True):
    """A pod."""

    metadata: PodMeta
    spec: PodSpec | None = None
    status: PodStatus | None = None


# -- NodeSets


class NodeSetMeta(_Part):
    """Metadata of a NodeSet."""

    name: Name
    uid: Name = ""
    generation: Count = 0


class NodeSetSpec(_Part):
    """What is asked for."""

    replicas: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    gpus: Count | None = None
    gpu_type: Word | None = None


class NodeSetStatus(_Part):
    """What it says of itself."""

    observed_generation: Count | None = None
    selector: Word | None = None
    replicas: Count | None = None
    ready_replicas: Count | None = None
    updated_replicas: Count | None = None
    desired_replicas: Count | None = None
    slurm_idle: Count | None = None
    slurm_allocated: Count | None = None
    slurm_down: Count | None = None
    slurm_drain: Count | None = None
    conditions: list[Condition] | None = None


class NodeSet(_Many, frozen=True):
    """A NodeSet."""

    metadata: NodeSetMeta
    spec: NodeSetSpec | None = None
    status: NodeSetStatus | None = None


# -- the ConfigMap


class Files(msgspec.Struct, gc=False):
    """The one file that is read back."""

    topology: str = msgspec.field(default="", name="topology.yaml")


class Config(msgspec.Struct, gc=False):
    """The cluster's ConfigMap."""

    data: Files | None = None


NODES: Final = msgspec.json.Decoder(Page[Node])
PODS: Final = msgspec.json.Decoder(Page[Pod])
NODE_SETS: Final = msgspec.json.Decoder(Page[NodeSet])
CONFIG: Final = msgspec.json.Decoder(Config)
