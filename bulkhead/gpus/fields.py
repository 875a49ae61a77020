"""The metrics of dcgm-exporter that a tenant may see, and the labels that stay on them. Pure.

A field that is not here is dropped: nothing is known of whose activity it shows. Units are those of DCGM: MiB, W, °C, MHz, %.
"""

from dataclasses import dataclass
from typing import Final, Literal

# What a value says of the time before its pod had the device.
# gauge: of the moment, so nothing once the exporter has measured again.
# counter: since the driver was loaded, so it is shown from the pod's first sample on.
# last: an event that stays until the next one, so it is shown once it has changed.
Kind = Literal["gauge", "counter", "last"]


@dataclass(frozen=True, slots=True)
class Field:
    """One metric. `sliced`: DCGM measures it for a MIG instance alone, and not for the whole board."""

    name: str
    kind: Kind
    help: str
    sliced: bool = False


UTILISATION: Final = "DCGM_FI_DEV_GPU_UTIL"
ENGINE_ACTIVE: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"  # from 0 to 1; what a MIG instance has instead of UTILISATION
XID: Final = "DCGM_FI_DEV_XID_ERRORS"
MEMORY_USED: Final = "DCGM_FI_DEV_FB_USED"
MEMORY_FREE: Final = "DCGM_FI_DEV_FB_FREE"
MEMORY_RESERVED: Final = "DCGM_FI_DEV_FB_RESERVED"
POWER: Final = "DCGM_FI_DEV_POWER_USAGE"
ENERGY: Final = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
TEMPERATURE: Final = "DCGM_FI_DEV_GPU_TEMP"
SM_CLOCK: Final = "DCGM_FI_DEV_SM_CLOCK"
MEMORY_CLOCK: Final = "DCGM_FI_DEV_MEM_CLOCK"
COPY_UTILISATION: Final = "DCGM_FI_DEV_MEM_COPY_UTIL"

_GAUGES: Final = {
    SM_CLOCK: "SM clock frequency (in MHz).",
    MEMORY_CLOCK: "Memory clock frequency (in MHz).",
    TEMPERATURE: "GPU temperature (in C).",
    "DCGM_FI_DEV_MEMORY_TEMP": "Memory temperature (in C).",
    POWER: "Power draw (in W).",
    UTILISATION: "GPU utilization (in %).",
    COPY_UTILISATION: "Memory utilization (in %).",
    "DCGM_FI_DEV_ENC_UTIL": "Encoder utilization (in %).",
    "DCGM_FI_DEV_DEC_UTIL": "Decoder utilization (in %).",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "Whether remapping of rows has failed.",
}
_SLICED_GAUGES: Final = {
    MEMORY_FREE: "Framebuffer memory free (in MiB).",
    MEMORY_USED: "Framebuffer memory used (in MiB).",
    MEMORY_RESERVED: "Framebuffer memory reserved (in MiB).",
    ENGINE_ACTIVE: "Ratio of time the graphics engine is active.",
    "DCGM_FI_PROF_SM_ACTIVE": "Ratio of cycles an SM has at least one warp assigned.",
    "DCGM_FI_PROF_SM_OCCUPANCY": "Ratio of warps resident on an SM.",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "Ratio of cycles the tensor pipe is active.",
    "DCGM_FI_PROF_DRAM_ACTIVE": "Ratio of cycles the device memory interface is active.",
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": "Ratio of cycles the fp64 pipe is active.",
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE": "Ratio of cycles the fp32 pipe is active.",
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": "Ratio of cycles the fp16 pipe is active.",
}
# What crosses PCIe and NVLink is counted for the board, whatever instance moved it.
_BOARD_RATES: Final = {
    "DCGM_FI_PROF_PCIE_TX_BYTES": "Bytes transmitted over PCIe per second.",
    "DCGM_FI_PROF_PCIE_RX_BYTES": "Bytes received over PCIe per second.",
    "DCGM_FI_PROF_NVLINK_TX_BYTES": "Bytes transmitted over NVLink per second.",
    "DCGM_FI_PROF_NVLINK_RX_BYTES": "Bytes received over NVLink per second.",
}
_COUNTERS: Final = {
    ENERGY: "Total energy consumption (in mJ).",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "Total number of PCIe retries.",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "Total number of NVLink bandwidth counters for all lanes.",
    "DCGM_FI_DEV_POWER_VIOLATION": "Throttling duration due to power constraints (in us).",
    "DCGM_FI_DEV_THERMAL_VIOLATION": "Throttling duration due to thermal constraints (in us).",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "Number of remapped rows for uncorrectable errors.",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": "Number of remapped rows for correctable errors.",
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": "Total number of single-bit volatile ECC errors.",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "Total number of double-bit volatile ECC errors.",
}

FIELDS: Final = {
    field.name: field
    for field in (
        *(Field(name, "gauge", text) for name, text in (_GAUGES | _BOARD_RATES).items()),
        *(Field(name, "gauge", text, sliced=True) for name, text in _SLICED_GAUGES.items()),
        *(Field(name, "counter", text) for name, text in _COUNTERS.items()),
        Field(XID, "last", "Value of the last XID error encountered."),
    )
}

GPU: Final = "gpu"
UUID: Final = "UUID"
HOSTNAME: Final = "Hostname"
POD: Final = "pod"
NAMESPACE: Final = "namespace"
CONTAINER: Final = "container"
INSTANCE: Final = "GPU_I_ID"
PROFILE: Final = "GPU_I_PROFILE"
SIMULATED: Final = "simulated"
# Names of the device itself; whatever other labels an exporter writes stay on the host.
DEVICE_LABELS: Final = (
    GPU, UUID, "pci_bus_id", "device", "modelName", PROFILE, INSTANCE, "DCGM_FI_DRIVER_VERSION", SIMULATED,
)  # fmt: skip
# With either an exporter says that several pods share the device.
SHARED_LABELS: Final = ("vgpu", "mps")
# What is read of an exporter's line. It may have many more: with its option for labels of pods, those that tenants gave.
READ_LABELS: Final = (*DEVICE_LABELS, *SHARED_LABELS, HOSTNAME, NAMESPACE, POD, CONTAINER)

# The type and the help of each metric, for a page.
ABOUT: Final = {name: ("gauge" if field.kind == "last" else field.kind, field.help) for name, field in FIELDS.items()}
