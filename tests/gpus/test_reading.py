"""Names and units: a GPU's values as NVML gives them, as `nvidia-smi` gives them, and as dcgm-exporter's samples."""

from types import SimpleNamespace
from typing import Any

import pytest

from bulkhead.gpus import fields
from bulkhead.gpus.exposition import parse, render
from bulkhead.gpus.fields import ABOUT, FIELDS
from tests.gpus.device import smi
from workstation.hostcluster.gpu.nvml import NoGpusError, Nvml
from workstation.hostcluster.gpu.reading import Owner, Reading, samples_of

SMI = """<?xml version="1.0" ?>
<nvidia_smi_log><driver_version>570.1</driver_version><gpu id="00000000:04:00.0">
<uuid>GPU-aa</uuid><product_name>NVIDIA H100</product_name>
<fb_memory_usage><total>81559 MiB</total>
<reserved>551 MiB</reserved><used>4500 MiB</used><free>76508 MiB</free></fb_memory_usage>
<utilization><gpu_util>87 %</gpu_util><memory_util>12 %</memory_util></utilization>
<temperature><gpu_temp>41 C</gpu_temp></temperature>
<gpu_power_readings><power_draw>N/A</power_draw><instant_power_draw>350.25 W</instant_power_draw></gpu_power_readings>
<clocks><sm_clock>1980 MHz</sm_clock><mem_clock>2619 MHz</mem_clock></clocks>
</gpu></nvidia_smi_log>"""


class Library:
    """NVML's answers for one GPU, in its own units: bytes, mW. It has no event, and cannot measure energy."""

    class NVMLError(Exception):
        """Any code."""

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    nvmlMemory_v2 = 2  # noqa: N815 - NVML's names
    nvmlEventTypeXidCriticalError = 8  # noqa: N815

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlSystemGetDriverVersion": b"570.1",
            "nvmlDeviceGetUUID": "GPU-aa",
            "nvmlDeviceGetName": "NVIDIA H100",
            "nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:04:00.0"),
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87, memory=12),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=4500 << 20, free=76508 << 20, reserved=551 << 20),
            "nvmlDeviceGetPowerUsage": 350250,
            "nvmlDeviceGetTemperature": 41,
            "nvmlEventSetCreate": "events",
            "nvmlDeviceRegisterEvents": None,
        }

        def answer(*arguments: Any) -> Any:
            if name == "nvmlDeviceGetClockInfo":
                return {self.NVML_CLOCK_SM: 1980, self.NVML_CLOCK_MEM: 2619}[arguments[1]]
            if name not in answers:
                raise self.NVMLError(name)
            return answers[name]

        return answer


def test_nvml_and_nvidia_smi_give_the_same_values_in_the_units_of_dcgm() -> None:
    readings = Nvml(Library()).read()
    ours = {sample.name: sample.value for reading in readings for sample in samples_of(reading, "node-1")}
    theirs = smi.parse(SMI)["GPU-aa"]
    assert set(theirs) == set(smi.UNITS)
    assert {name: ours[name] for name in theirs} == theirs
    # What it cannot measure is left out, and no error was reported.
    assert fields.ENERGY not in ours
    assert ours[fields.XID] == 0


def test_a_unit_that_is_not_dcgms_is_refused() -> None:
    with pytest.raises(ValueError, match="MiB"):
        smi.parse(SMI.replace("4500 MiB", "4500 KiB"))


def test_a_machine_without_a_driver_says_so() -> None:
    class Broken(Library):
        def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
            raise self.NVMLError("NVML Shared Library Not Found")

    with pytest.raises(NoGpusError, match="Not Found"):
        Nvml(Broken())


def test_a_page_names_the_pod_and_says_what_is_simulated() -> None:
    reading = Reading(3, "GPU-aa", "Simulated GPU", utilisation=5.0, simulated=True)
    page = parse(render(samples_of(reading, "node-1", Owner("bh-red-work", "x", "main")), ABOUT), FIELDS)
    (sample,) = page.samples
    assert sample.labels == {
        "gpu": "3",
        "UUID": "GPU-aa",
        "device": "nvidia3",
        "modelName": "Simulated GPU",
        "Hostname": "node-1",
        "simulated": "true",
        "container": "main",
        "namespace": "bh-red-work",
        "pod": "x",
    }
