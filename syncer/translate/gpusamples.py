"""GPU samples of the tenant's host pods in the names of its plane. Pure.

The source has chosen them by the host's view. Here is the second check: a sample is left out if its pod is not the tenant's, or
is another pod of that name by now, or does not have its container.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from bulkhead.gpus import fields
from bulkhead.gpus.exposition import Sample

# The host pod's UID, which only the source and the syncer see.
UID: Final = "uid"


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A pod of the plane, and the UID of its host pod."""

    uid: str
    namespace: str
    name: str
    node: str
    containers: frozenset[str]


def translated(samples: Iterable[Sample], *, namespace: str, find: Callable[[str], Mirrored | None]) -> Iterator[Sample]:
    """The samples of the tenant's own pods; `find` takes the name of a host pod in `namespace`."""
    for sample in samples:
        labels = sample.labels
        pod = find(labels.get(fields.POD, "")) if labels.get(fields.NAMESPACE) == namespace else None
        if pod is None or not pod.uid or labels.get(UID) != pod.uid or labels.get(fields.HOSTNAME) != pod.node:
            continue
        container = labels.get(fields.CONTAINER, "")
        if container and container not in pod.containers:
            continue
        device = {label: labels[label] for label in fields.DEVICE_LABELS if label in labels}
        owner = {fields.HOSTNAME: pod.node, fields.NAMESPACE: pod.namespace, fields.POD: pod.name}
        yield Sample(sample.name, device | owner | ({fields.CONTAINER: container} if container else {}), sample.value)
