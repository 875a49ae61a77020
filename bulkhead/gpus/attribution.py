"""To which pod each sample of an exporter's page belongs; what is not certain belongs to none. Pure.

An exporter labels a device with the pod that the kubelet names at the moment of the scrape, while the value may have been
measured before. So a label alone proves nothing. A sample counts if
- its pod is known on that node, is the same one (by UID) before and after the scrape, and has not ended;
- no other pod is named for the device on the page, no label says that it is shared, and the node shares no GPUs;
- the page names no more devices for the pod than the pod asked for;
- pages have named this pod for the device for `settle_seconds` already, so the exporter has measured again since.

Counters of a device begin at 0 with the pod, and an earlier error does not show.

    page, pods before, pods after, node ──> attribute(state) ──> state, samples by pod, what was dropped
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from bulkhead.gpus import fields
from bulkhead.gpus.exposition import Sample
from bulkhead.gpus.fields import FIELDS

SETTLE_SECONDS: Final = 60.0  # twice what dcgm-exporter waits between two measurements, since some values are averages


class Name(NamedTuple):
    """A host pod's namespace and name."""

    namespace: str
    name: str


class Device(NamedTuple):
    """A GPU, or a MIG instance of one."""

    uuid: str
    instance: str = ""


class Dropped(StrEnum):
    """Why a sample of a pod belongs to no tenant."""

    UNKNOWN = "unknown-pod"  # not a tenant's, of another node, ended, or another pod of the same name
    CHANGED = "pod-changed"  # during the scrape
    SHARED = "shared-device"
    TOO_MANY = "too-many-devices"
    SETTLING = "settling"
    BOARD = "whole-board"  # of a MIG instance, but measured for all of its board


@dataclass(frozen=True, slots=True)
class Pod:
    """A tenant's pod that has not ended. `devices` is the most that it may hold; None if only its claims know."""

    uid: str
    devices: int | None


@dataclass(frozen=True, slots=True)
class Node:
    """A node. `gpus` is how many GPUs and instances it offers to pods; `shares` says that several pods get the same one."""

    gpus: int
    shares: bool = False


@dataclass(frozen=True, slots=True)
class Attributed:
    """A sample that is its pod's alone. Its labels name the device and nothing of the host."""

    uid: str
    pod: Name
    container: str
    sample: Sample


@dataclass(frozen=True, slots=True)
class Holding:
    """A pod that pages name for a device, since when, and what counters stood at then."""

    uid: str
    container: str
    since: float
    first: Mapping[str, float] = field(default_factory=dict)


State = Mapping[Device, Holding]
_NEVER: Final = -1.0  # no error has this number


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one page gave. `devices` is how many it listed."""

    state: State
    samples: tuple[Attributed, ...]
    dropped: Mapping[Dropped, int]
    devices: int


def attribute(
    state: State,
    page: Iterable[Sample],
    *,
    unreadable: Iterable[Mapping[str, str]] = (),
    pods: tuple[Mapping[Name, Pod], Mapping[Name, Pod]],
    node: Node,
    now: float,
    settle_seconds: float = SETTLE_SECONDS,
) -> Verdict:
    """Judge one page of a node.

    `unreadable` are the labels of lines that say no more than which device they are about: nothing tells whose work such a
    device shows, and the node has it nevertheless. `pods` are the node's own, before and after the scrape; `now` is when it
    began, on a monotonic clock.
    """
    before, after = pods
    samples = [sample for sample in page if sample.labels.get(fields.UUID)]
    unread = {_device(labels) for labels in unreadable if labels.get(fields.UUID)}
    devices = {_device(sample.labels) for sample in samples} | unread
    claims = _claims(samples)
    named = Counter(name for holders in claims.values() for name in {holder.name for holder in holders})
    node_shares = node.shares or node.gpus > len(devices)
    known = {pod.uid for pod in before.values()}
    holdings = {device: held for device, held in state.items() if device not in devices and held.uid in known}
    refused: dict[Device, Dropped] = {}
    for device, holders in claims.items():
        holder = next(iter(holders))
        pod = before.get(holder.name)
        if pod is None:
            refused[device] = Dropped.UNKNOWN
        elif after.get(holder.name) != pod:
            refused[device] = Dropped.CHANGED
        elif node_shares or holder.shared or len(holders) > 1 or device in unread:
            refused[device] = Dropped.SHARED
        elif pod.devices is not None and named[holder.name] > pod.devices:
            refused[device] = Dropped.TOO_MANY
        else:
            held = state.get(device)
            if held is None or (held.uid, held.container) != (pod.uid, holder.container):
                held = Holding(pod.uid, holder.container, now)
            holdings[device] = held
            if now - held.since < settle_seconds:
                refused[device] = Dropped.SETTLING
    kept, dropped = _judged(samples, holdings, refused)
    return Verdict(holdings, tuple(kept), dropped, len(devices))


def _judged(
    samples: Iterable[Sample], holdings: dict[Device, Holding], refused: Mapping[Device, Dropped]
) -> tuple[list[Attributed], Counter[Dropped]]:
    """The samples that count, each series once; `holdings` takes over what counters began with."""
    dropped: Counter[Dropped] = Counter()
    kept: list[Attributed] = []
    series: set[tuple[Device, str]] = set()
    for sample in samples:
        device = _device(sample.labels)
        if not sample.labels.get(fields.POD) or (device, sample.name) in series:
            continue
        series.add((device, sample.name))
        reason = refused.get(device) or (Dropped.BOARD if device.instance and not FIELDS[sample.name].sliced else None)
        if reason is not None:
            dropped[reason] += 1
            continue
        holdings[device], value = _since(holdings[device], sample)
        kept.append(_kept(holdings[device], sample, value))
    return kept, dropped


def _device(labels: Mapping[str, str]) -> Device:
    return Device(labels[fields.UUID], labels.get(fields.INSTANCE, ""))


class _Claim(NamedTuple):
    """What a page names for a device; `shared` if a label says so."""

    name: Name
    container: str
    shared: bool


def _claims(samples: Iterable[Sample]) -> dict[Device, set[_Claim]]:
    found: dict[Device, set[_Claim]] = {}
    for sample in samples:
        labels = sample.labels
        if labels.get(fields.POD):
            name = Name(labels.get(fields.NAMESPACE, ""), labels[fields.POD])
            shared = any(labels.get(label) for label in fields.SHARED_LABELS)
            found.setdefault(_device(labels), set()).add(_Claim(name, labels.get(fields.CONTAINER, ""), shared))
    return found


def _since(holding: Holding, sample: Sample) -> tuple[Holding, float]:
    """The value since the pod has the device, and what to remember for the next page."""
    kind = FIELDS[sample.name].kind
    if kind == "gauge":
        return holding, sample.value
    first = holding.first.get(sample.name)
    if first is None:
        return replace(holding, first={**holding.first, sample.name: sample.value}), 0.0
    if kind == "last":
        if sample.value == first:
            return holding, 0.0
        # From here on each error is the pod's own, also one with the earlier number.
        return replace(holding, first={**holding.first, sample.name: _NEVER}), sample.value
    if sample.value < first:
        # The driver was loaded again.
        return replace(holding, first={**holding.first, sample.name: 0.0}), sample.value
    return holding, sample.value - first


def _kept(holding: Holding, sample: Sample, value: float) -> Attributed:
    labels = {label: sample.labels[label] for label in fields.DEVICE_LABELS if label in sample.labels}
    name = Name(sample.labels.get(fields.NAMESPACE, ""), sample.labels[fields.POD])
    return Attributed(holding.uid, name, holding.container, Sample(sample.name, labels, value))
