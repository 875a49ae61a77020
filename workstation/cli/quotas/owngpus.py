"""How busy a tenant's own GPUs are, from the pages of its virtual nodes in dcgm-exporter's names. Pure.

pages ──> samples within bounds ──> by pod and device ──> PodUse: busy, memory, power, temperature, errors

A page comes from the plane, whose users may have replaced what answers there. So a line that does not fit is left out, and
names are looked up and never shown from here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bulkhead.gpus import fields
from bulkhead.gpus.exposition import Sample, parse

MAX_PAGE_BYTES: Final = 2 * 1024 * 1024
MAX_SAMPLES: Final = 20_000
# Devices below this are named as hardly used, as `usage --idle` does.
IDLE_PERCENT: Final = 5.0
_WANTED: Final = frozenset(
    {
        fields.UTILISATION,
        fields.ENGINE_ACTIVE,
        fields.MEMORY_USED,
        fields.MEMORY_FREE,
        fields.POWER,
        fields.TEMPERATURE,
        fields.XID,
    }
)
_LARGEST: Final = 1e9
# The namespace and name of a pod of the plane.
PodName: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PodUse:
    """What was measured of one pod's devices. None: it was not measured, or not of all of them."""

    devices: int
    # The average of its devices, in percent.
    busy: float | None = None
    idle_devices: int = 0
    memory_used_mib: float | None = None
    memory_mib: float | None = None
    watts: float | None = None
    # The hottest device, in degrees Celsius.
    celsius: float | None = None
    # Numbers of the driver's errors.
    xids: tuple[int, ...] = ()
    # An exporter that makes its values up, as the embedded host's does, says so.
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Uses:
    """What was read of all pods."""

    pods: Mapping[PodName, PodUse]
    # Why something is missing; empty if all was read.
    missing: str = ""


def samples(page: bytes) -> tuple[Sample, ...]:
    """The samples of one page that are used here."""
    return parse(page, _WANTED, max_bytes=MAX_PAGE_BYTES, max_samples=MAX_SAMPLES).samples


def uses(found: Iterable[Sample]) -> dict[PodName, PodUse]:
    """What each pod's devices do."""
    devices: dict[PodName, dict[tuple[str, str], dict[str, float]]] = {}
    simulated: set[PodName] = set()
    for sample in found:
        labels = sample.labels
        pod = labels.get(fields.NAMESPACE, ""), labels.get(fields.POD, "")
        device = labels.get(fields.UUID, "") or labels.get(fields.GPU, ""), labels.get(fields.INSTANCE, "")
        if not all(pod) or not device[0] or not 0 <= sample.value <= _LARGEST:
            continue
        devices.setdefault(pod, {}).setdefault(device, {})[sample.name] = sample.value
        if labels.get(fields.SIMULATED):
            simulated.add(pod)
    return {pod: _use(list(found.values()), simulated=pod in simulated) for pod, found in devices.items()}


def _use(devices: list[dict[str, float]], *, simulated: bool) -> PodUse:
    busy = [_busy(device) for device in devices]
    measured = [value for value in busy if value is not None]
    used, free, watts, heat = (
        [device[name] for device in devices if name in device]
        for name in (fields.MEMORY_USED, fields.MEMORY_FREE, fields.POWER, fields.TEMPERATURE)
    )
    whole = len(devices)
    return PodUse(
        devices=whole,
        busy=sum(measured) / whole if len(measured) == whole else None,
        idle_devices=sum(value < IDLE_PERCENT for value in measured),
        memory_used_mib=sum(used) if len(used) == whole else None,
        memory_mib=sum(used) + sum(free) if len(used) == len(free) == whole else None,
        watts=sum(watts) if len(watts) == whole else None,
        celsius=max(heat, default=None),
        xids=tuple(sorted({int(device[fields.XID]) for device in devices if device.get(fields.XID)}))[:16],
        simulated=simulated,
    )


def _busy(device: Mapping[str, float]) -> float | None:
    """In percent; a MIG instance has the ratio of its own engine alone."""
    if fields.UTILISATION in device:
        return min(100.0, device[fields.UTILISATION])
    ratio = device.get(fields.ENGINE_ACTIVE)
    return None if ratio is None else min(100.0, 100 * ratio)


def as_json(use: PodUse) -> dict[str, Any]:
    """For a page or a document."""
    return {
        "devices": use.devices,
        "busyPercent": _rounded(use.busy),
        "idleDevices": use.idle_devices,
        "memoryUsedMiB": _rounded(use.memory_used_mib),
        "memoryMiB": _rounded(use.memory_mib),
        "watts": _rounded(use.watts),
        "celsius": _rounded(use.celsius),
        "xids": list(use.xids),
        "simulated": use.simulated,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
