"""The experiments as data: what each one breaks, what it claims about everything else, and its bounds. Pure.

To add one: an entry here, and its fault of the same name in `faults`.
"""

from dataclasses import dataclass
from typing import Final

# The claim that every experiment makes about the tenants that it does not break.
OTHERS: Final = "other tenants' requests succeed and stay fast, and none of their planes or syncers restarts"


@dataclass(frozen=True, slots=True)
class Experiment:
    """One fault, what should be true meanwhile, and how large and how long it may be."""

    name: str
    title: str
    # What should be true of the target; `OTHERS` is claimed in addition.
    hypothesis: str
    # What it creates or deletes, for the dry run.
    touches: str
    # How long the target may take to work again, in seconds.
    recover_seconds: float = 120.0
    # How many objects, connections or processes the fault has at most; 0 if it has no number.
    amount: int = 0
    # Whether it breaks the platform, which all tenants share, and not the target alone.
    platform: bool = False
    # Whether it may only break a tenant that the run itself has created.
    own_only: bool = False
    # Whether it runs a pod, and so needs an image that the target's nodes can pull.
    needs_image: bool = False


EXPERIMENTS: Final[tuple[Experiment, ...]] = (
    Experiment(
        "plane-deleted",
        "the target's control plane is killed",
        "its API is away for a moment, its data stays, and it works again by itself",
        "deletes the pod plane-0 in the target's plane namespace, without grace",
    ),
    Experiment(
        "syncer-deleted",
        "the target's syncer is killed",
        "its API stays up, and its objects reach the host again by themselves",
        "deletes the pods of the target's syncer, without grace",
    ),
    Experiment(
        "controller-deleted",
        "Bulkhead's controller is killed",
        "no tenant notices, because no tenant's traffic passes through it",
        "deletes the pods of Bulkhead's controller, without grace; for a moment no tenant is created or changed",
        platform=True,
    ),
    Experiment(
        "webhook-fails",
        "a webhook in the target refuses every write",
        "the target's writes fail until it is gone",
        "creates a ValidatingWebhookConfiguration in the target that no server answers",
    ),
    Experiment(
        "webhook-slow",
        "a webhook in the target delays every write by 5 s",
        "the target's writes are slow until it is gone",
        "creates a ValidatingWebhookConfiguration in the target whose address never answers",
    ),
    Experiment(
        "objects-flood",
        "thousands of ConfigMaps are written to the target",
        "its own API server and store carry them",
        "creates up to 2,000 ConfigMaps in a namespace of its own in the target",
        amount=2000,
    ),
    Experiment(
        "definitions-flood",
        "CustomResourceDefinitions are written to the target",
        "its own API server publishes them",
        "creates up to 60 CustomResourceDefinitions in the target",
        recover_seconds=180.0,
        amount=60,
    ),
    Experiment(
        "events-flood",
        "thousands of events are written to the target",
        "its own API server and store carry them",
        "creates up to 3,000 Events in a namespace of its own in the target",
        amount=3000,
    ),
    Experiment(
        "watch-storm",
        "hundreds of watches are opened on the target",
        "its own API server serves or refuses them",
        "opens up to 300 watches of ConfigMaps in the target, and creates nothing",
        amount=300,
    ),
    Experiment(
        "gpu-never-fits",
        "pods request more GPUs than there are",
        "they stay Pending, say why, and none reaches the host",
        "creates up to 50 pods in the target that request 1,000,000 GPUs each",
        amount=50,
    ),
    Experiment(
        "store-filled",
        "the target's store is filled to its quota",
        "the target is told so, and can write again once it has deleted enough",
        "creates the target with a store of 100Mi, and up to 200 ConfigMaps of 900 kB in it",
        recover_seconds=300.0,
        amount=200,
        own_only=True,
    ),
    Experiment(
        "cpu-hog",
        "a pod of the target computes without a pause",
        "it gets no more CPU than its limit",
        "runs one pod in the target with a limit of 1 CPU",
        needs_image=True,
    ),
    Experiment(
        "memory-hog",
        "a pod of the target takes memory without end",
        "it is ended at its limit, and no other pod is",
        "runs one pod in the target with a limit of 128Mi, which is killed again and again",
        needs_image=True,
    ),
    Experiment(
        "processes-hog",
        "a pod of the target starts processes without end",
        "it gets no more processes than its node allows a pod",
        "runs one pod in the target that starts up to 3,000 processes that sleep",
        amount=3000,
        needs_image=True,
    ),
)

BY_NAME: Final = {experiment.name: experiment for experiment in EXPERIMENTS}
