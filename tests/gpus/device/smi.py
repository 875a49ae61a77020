"""What `nvidia-smi -q -x` says of each GPU, in the units of dcgm-exporter. Pure but for `ask`."""

import subprocess
import xml.etree.ElementTree as ET
from typing import Final

from bulkhead.gpus import fields

# The first element that is there: drivers have renamed some.
_PATHS: Final = {
    fields.SM_CLOCK: ("clocks/sm_clock",),
    fields.MEMORY_CLOCK: ("clocks/mem_clock",),
    fields.TEMPERATURE: ("temperature/gpu_temp",),
    fields.POWER: (
        "gpu_power_readings/instant_power_draw",
        "gpu_power_readings/power_draw",
        "gpu_power_readings/average_power_draw",
        "power_readings/power_draw",
    ),
    fields.UTILISATION: ("utilization/gpu_util",),
    fields.COPY_UTILISATION: ("utilization/memory_util",),
    fields.MEMORY_FREE: ("fb_memory_usage/free",),
    fields.MEMORY_USED: ("fb_memory_usage/used",),
    fields.MEMORY_RESERVED: ("fb_memory_usage/reserved",),
}
UNITS: Final = {
    fields.SM_CLOCK: "MHz",
    fields.MEMORY_CLOCK: "MHz",
    fields.TEMPERATURE: "C",
    fields.POWER: "W",
    fields.UTILISATION: "%",
    fields.COPY_UTILISATION: "%",
    fields.MEMORY_FREE: "MiB",
    fields.MEMORY_USED: "MiB",
    fields.MEMORY_RESERVED: "MiB",
}


def ask() -> str:
    """The driver's own tool."""
    return subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, text=True, timeout=60, check=True).stdout


def parse(text: str) -> dict[str, dict[str, float]]:
    """The values of each GPU by UUID; raises ValueError for a unit that is not dcgm-exporter's."""
    found: dict[str, dict[str, float]] = {}
    for gpu in ET.fromstring(text).iter("gpu"):  # noqa: S314 - the driver's own tool
        values = found.setdefault(gpu.findtext("uuid", ""), {})
        for name, paths in _PATHS.items():
            texts = (gpu.findtext(path, "") for path in paths)
            answer = next((text for text in texts if text[:1].isdigit()), "")
            if answer:
                number, _, unit = answer.partition(" ")
                if unit != UNITS[name]:
                    raise ValueError(f"{name}: nvidia-smi says {answer!r}, dcgm-exporter's unit is {UNITS[name]}")
                values[name] = float(number)
    return found
