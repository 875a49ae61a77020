"""What is measured of a GPU, as dcgm-exporter's samples: names, units and labels. Pure.

Also for Python 3.10, since `tests/gpus/device` runs it on bare machines.
"""

from dataclasses import dataclass

from bulkhead.gpus import fields
from bulkhead.gpus.exposition import Sample


@dataclass(frozen=True, slots=True)
class Owner:
    """The host pod and container to which the kubelet gave a device."""

    namespace: str
    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU at one moment. What it cannot measure is None."""

    index: int
    uuid: str
    model: str
    bus: str = ""
    driver: str = ""
    utilisation: float | None = None  # percent, as the next
    copy_utilisation: float | None = None
    memory_used: float | None = None  # MiB, as the next two
    memory_free: float | None = None
    memory_reserved: float | None = None
    power: float | None = None  # W
    energy: float | None = None  # mJ
    temperature: float | None = None  # °C
    sm_clock: float | None = None  # MHz, as the next
    memory_clock: float | None = None
    xid: float | None = None  # the last since the exporter began; 0 for none
    simulated: bool = False


def samples_of(reading: Reading, host: str, owner: Owner | None = None) -> tuple[Sample, ...]:
    """Its samples; those of a device that a pod has name the pod."""
    labels = {
        fields.GPU: str(reading.index),
        fields.UUID: reading.uuid,
        "pci_bus_id": reading.bus,
        "device": f"nvidia{reading.index}",
        "modelName": reading.model,
        fields.HOSTNAME: host,
        "DCGM_FI_DRIVER_VERSION": reading.driver,
        fields.SIMULATED: "true" if reading.simulated else "",
    }
    if owner is not None:
        labels |= {fields.CONTAINER: owner.container, fields.NAMESPACE: owner.namespace, fields.POD: owner.pod}
    labels = {name: value for name, value in labels.items() if value}
    values = {
        fields.SM_CLOCK: reading.sm_clock,
        fields.MEMORY_CLOCK: reading.memory_clock,
        fields.TEMPERATURE: reading.temperature,
        fields.POWER: reading.power,
        fields.ENERGY: reading.energy,
        fields.UTILISATION: reading.utilisation,
        fields.COPY_UTILISATION: reading.copy_utilisation,
        fields.MEMORY_FREE: reading.memory_free,
        fields.MEMORY_USED: reading.memory_used,
        fields.MEMORY_RESERVED: reading.memory_reserved,
        fields.XID: reading.xid,
    }
    return tuple(Sample(name, labels, value) for name, value in values.items() if value is not None)
