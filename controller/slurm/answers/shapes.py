"""Lists the fields, with their types, that are read from the objects of a Slurm cluster in a plane. Nothing else is read.

A tenant may have created any of these objects itself, or even their definition. A field of another type is an error; fields
that are not listed here never take memory.
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
    """A part that an object contains once."""


class _Many(Counted, frozen=True, rename="camel", omit_defaults=True):
    """A part that an object or a list contains any number of times."""


class Condition(_Many, frozen=True):
    """A condition."""

    type: Word = ""
    status: Word = ""
    reason: Word = ""
    message: Text = ""
    last_transition_time: Word | None = None


class Anything(_Part):
    """An object of which nothing is read."""


# -- nodes


class NodeLabels(msgspec.Struct, gc=False, omit_defaults=True):
    """A node's place in the network, and its GPUs."""

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
    """Whether a node accepts new pods."""

    unschedulable: bool | None = None


class NodeStatus(_Part):
    """The conditions of a node."""

    conditions: list[Condition] | None = None


class Node(_Many, frozen=True):
    """A node."""

    metadata: NodeMeta
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


# -- pods


class PodLabels(msgspec.Struct, gc=False, omit_defaults=True):
    """A pod's role in the cluster."""

    name: Name | None = msgspec.field(default=None, name=NAME_LABEL)
    node_set: Name | None = msgspec.field(default=None, name=NODE_SET_LABEL)
    ordinal: Name | None = msgspec.field(default=None, name=ORDINAL_LABEL)


class PodAnnotations(msgspec.Struct, gc=False, omit_defaults=True):
    """The digest of the spec from which a worker was created."""

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
    """The node of a pod."""

    node_name: Name | None = None


class Waiting(_Part):
    """Why a container waits."""

    reason: Word | None = None
    message: Text | None = None


class State(_Part):
    """The state of a container."""

    waiting: Waiting | None = None


class Container(_Many, frozen=True):
    """The status of a container."""

    name: Name = ""
    ready: bool = False
    restart_count: Count = 0
    state: State | None = None


class PodStatus(_Part):
    """The status of a pod."""

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
    """The spec of a NodeSet."""

    replicas: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] | None = None
    gpus: Count | None = None
    gpu_type: Word | None = None


class NodeSetStatus(_Part):
    """The status of a NodeSet."""

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
ANYTHING: Final = msgspec.json.Decoder(Anything)
