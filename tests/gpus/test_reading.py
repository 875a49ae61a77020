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


class Reporting(Library):
    """Two GPUs, of which only the first reports errors; `errors` waits to be heard."""

    def __init__(self, errors: list[int]) -> None:
        self.errors = errors
        self.asked = 0

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - NVML's names, as those below
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return f"GPU-{handle}"

    def nvmlDeviceRegisterEvents(self, handle: int, kinds: int, events: str) -> None:  # noqa: N802
        if handle or kinds != self.nvmlEventTypeXidCriticalError:
            raise self.NVMLError("not supported")

    def nvmlEventSetWait_v2(self, events: str, milliseconds: int) -> SimpleNamespace:  # noqa: N802
        assert milliseconds == 0, "a scrape waits for no error"
        self.asked += 1
        if not self.errors:
            raise self.NVMLError("timeout")
        return SimpleNamespace(device=0, eventData=self.errors.pop(0))


def xids(collector: Nvml) -> dict[str, float | None]:
    return {reading.uuid: reading.xid for reading in collector.read()}


def test_the_last_error_stays_and_a_gpu_that_reports_none_has_none() -> None:
    library = Reporting([])
    collector = Nvml(library)
    assert xids(collector) == {"GPU-0": 0, "GPU-1": None}
    library.errors += [31, 43]
    assert xids(collector) == {"GPU-0": 43, "GPU-1": None}
    assert xids(collector) == {"GPU-0": 43, "GPU-1": None}
    library.errors += [13]
    assert xids(collector) == {"GPU-0": 13, "GPU-1": None}


def test_a_flood_of_errors_does_not_keep_a_scrape() -> None:
    library = Reporting([31] * 5000)
    Nvml(library).read()
    assert library.asked == 1000


def test_a_driver_without_events_exports_no_error_number() -> None:
    class Silent(Library):
        def nvmlEventSetCreate(self) -> str:  # noqa: N802 - NVML's name
            raise self.NVMLError("not supported")

    (reading,) = Nvml(Silent()).read()
    assert reading.xid is None
    assert reading.utilisation == 87


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
