"""Network and disk figures of tenants' pods, from a kubelet's page of cAdvisor. Pure.

The page is about all that runs on a node. A line counts if
- it is of a wanted metric, and names a pod of a tenant's namespace of work;
- that pod is known on the node, and has not ended; the caller looks again after the scrape;
- the control group that was measured is that pod's, by the UID in its path: a name alone may be a predecessor's.

What the page says of the host is left out: devices, paths, images, and how large the node's disks are. Figures by disk are
added up. Disks below LVM, LUKS or RAID are measured at each layer: a page has the same bytes for `/dev/dm-0` and `/dev/sda`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from bulkhead.gpus.attribution import Name
from bulkhead.gpus.exposition import MAX_PASSED_LINE_BYTES, MAX_VALUE_CHARACTERS, Lines, Sample, parse

# A container has some 23 KiB: a node with 250 pods of three has 17 MiB, and a pod may have a hundred containers.
MAX_PAGE_BYTES: Final = 128 * 1024 * 1024
MAX_KEPT_BYTES: Final = 16 * 1024 * 1024  # of a page, for lines of tenants that may count: some 4,000 containers
MAX_SAMPLES: Final = 50_000  # of one page
MAX_INTERFACES: Final = 8  # of one pod
_NETWORK: Final = "container_network_"
# What a name means to a reader; the type of all of them but `usage` is a counter.
FIGURES: Final[Mapping[str, tuple[str, str]]] = {
    "container_network_receive_bytes_total": ("counter", "Bytes that the pod has received."),
    "container_network_receive_packets_total": ("counter", "Packets that the pod has received."),
    "container_network_receive_packets_dropped_total": ("counter", "Received packets that were dropped."),
    "container_network_receive_errors_total": ("counter", "Errors while receiving."),
    "container_network_transmit_bytes_total": ("counter", "Bytes that the pod has sent."),
    "container_network_transmit_packets_total": ("counter", "Packets that the pod has sent."),
    "container_network_transmit_packets_dropped_total": ("counter", "Packets to send that were dropped."),
    "container_network_transmit_errors_total": ("counter", "Errors while sending."),
    "container_fs_reads_bytes_total": ("counter", "Bytes that the container has read from disks."),
    "container_fs_reads_total": ("counter", "Reads from disks."),
    "container_fs_writes_bytes_total": ("counter", "Bytes that the container has written to disks."),
    "container_fs_writes_total": ("counter", "Writes to disks."),
    "container_fs_usage_bytes": ("gauge", "Bytes of the container's own file system."),
}
NAMESPACE: Final = "namespace"
POD: Final = "pod"
CONTAINER: Final = "container"
INTERFACE: Final = "interface"
_DEVICE: Final = "device"
_GROUP: Final = "id"
# Labels of the page that are read. Others may have any length: a reference to an image has up to some 520 characters.
# A node that is itself a container has long paths.
_READ: Final = dict.fromkeys((NAMESPACE, POD, CONTAINER, INTERFACE, _DEVICE), MAX_VALUE_CHARACTERS) | {_GROUP: 2048}
# Only between the scraper and a syncer.
UID: Final = "uid"
NODE: Final = "node"

_OWNER: Final = re.compile(
    r"(?:^|[/-])pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})(?:\.slice)?(?:/|$)"
)
# Devices whose bytes are written to others, which the page has too.
_LAYER: Final = re.compile(r"/dev/(?:mapper/|dm-|md/|md\d|loop\d|bcache\d|drbd\d)")
# Only lines that may count are taken apart: the others are nine of ten.
_STARTS: Final = (b"container_network_", b"container_fs_")
_OF_WORK: Final = b'-work"'


_Place: TypeAlias = tuple[str, Name, str, str]  # metric, pod, container, interface


@dataclass(frozen=True, slots=True)
class Figures:
    """What one page gave: samples by pod, with the host's names, and how many lines of tenants were left out."""

    by_pod: Mapping[Name, tuple[Sample, ...]]
    left_out: int


class Kept:
    """Keeps of a page that comes piece by piece the lines that may count, which are one of ten."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._lines = Lines(MAX_PASSED_LINE_BYTES, self._line)

    def feed(self, part: bytes) -> None:
        """Take the next piece. Raises ValueError where too much may count."""
        self._lines.feed(part)

    def page(self) -> bytes:
        """The page without all other lines, after its last piece."""
        self._lines.end()
        return bytes(self._kept)

    def _line(self, line: bytes, is_cut: bool) -> None:
        if not is_cut and _may_count(line):
            self._kept += line + b"\n"
            if len(self._kept) > MAX_KEPT_BYTES:
                raise ValueError(f"more than {MAX_KEPT_BYTES // 1024} KiB of tenants")


def _may_count(line: bytes) -> bool:
    return line.startswith(_STARTS) and _OF_WORK in line


def figures(page: bytes, node: str, pods: Mapping[Name, str]) -> Figures:
    """The figures of tenants' pods; `pods` are the UIDs of the node's own before the scrape."""
    lines = (line for line in page[:MAX_PAGE_BYTES].split(b"\n") if _may_count(line))
    read = parse(b"\n".join(lines), FIGURES, max_bytes=MAX_KEPT_BYTES, max_samples=MAX_SAMPLES, read=_READ)
    left_out = read.left_out
    sums: dict[_Place, _Disks] = {}
    interfaces: dict[Name, set[str]] = {}
    for sample in read.samples:
        if _is_of_a_whole_pod(sample):
            continue
        place = _place(sample, pods)
        if place is None or not _has_room(interfaces.setdefault(place[1], set()), place[3]):
            left_out += 1
        else:
            sums.setdefault(place, _Disks()).add(sample.labels.get(_DEVICE, ""), max(0.0, sample.value))
    made: dict[Name, list[Sample]] = {}
    for (name, pod, container, interface), disks in sums.items():
        where = {CONTAINER: container, INTERFACE: interface, UID: pods[pod], NODE: node}
        labels = {NAMESPACE: pod.namespace, POD: pod.name} | {key: text for key, text in where.items() if text}
        made.setdefault(pod, []).append(Sample(name, labels, disks.value))
    return Figures({pod: tuple(samples) for pod, samples in made.items()}, left_out)


@dataclass(slots=True)
class _Disks:
    """The values of one series; those of an interface have no device."""

    plain: float = 0.0
    layer: float = 0.0

    def add(self, device: str, value: float) -> None:
        """Take one line over."""
        if _LAYER.match(device):
            self.layer = max(self.layer, value)
        else:
            self.plain += value

    @property
    def value(self) -> float:
        """All plain disks; the busiest layer above them where a page lacks these, or counts less of them."""
        return max(self.plain, self.layer)


def _is_of_a_whole_pod(sample: Sample) -> bool:
    """Whether a line of disks is of no container: the page adds each pod up, and has its containers too."""
    return not sample.name.startswith(_NETWORK) and not sample.labels.get(CONTAINER)


def _place(sample: Sample, pods: Mapping[Name, str]) -> _Place | None:
    """The series that a line belongs to; None if it is not certain whose it is."""
    labels = sample.labels
    pod = Name(labels.get(NAMESPACE, ""), labels.get(POD, ""))
    owner = _OWNER.search(labels.get(_GROUP, ""))
    if owner is None or pods.get(pod) != owner[1].replace("_", "-"):
        return None
    container, interface = labels.get(CONTAINER, ""), labels.get(INTERFACE, "")
    if sample.name.startswith(_NETWORK):
        # It is measured once for all of a pod's containers.
        return (sample.name, pod, "", interface) if interface else None
    return sample.name, pod, container, ""


def _has_room(known: set[str], interface: str) -> bool:
    if interface and interface not in known and len(known) >= MAX_INTERFACES:
        return False
    known.add(interface)
    return True
