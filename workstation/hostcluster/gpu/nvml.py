"""Measures real GPUs by NVML, for nodes on which no dcgm-exporter runs.

NVML is NVIDIA's library beside the driver; PyPI's `nvidia-ml-py` speaks to it, and is imported only here. What a GPU does not
support is left out. An error (XID) is known from when the collector has begun.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from workstation.hostcluster.gpu.reading import Reading

_MIB = 1 << 20


class NoGpusError(Exception):
    """The GPUs of the machine cannot be asked; the text says why."""


class Nvml:
    """The GPUs of this machine; `close` it in the end."""

    def __init__(self, library: Any = None) -> None:
        try:
            self._nvml: Any = library if library is not None else importlib.import_module("pynvml")
            self._nvml.nvmlInit()
        except ImportError as error:
            raise NoGpusError("Python package nvidia-ml-py is missing: pip install nvidia-ml-py") from error
        except Exception as error:  # NVML has one class for each code, below a class of its own
            raise NoGpusError(f"NVML: {error}") from error
        count = int(self._nvml.nvmlDeviceGetCount())
        self._devices = [self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        self._driver = _text(self._nvml.nvmlSystemGetDriverVersion())
        # The last error of each GPU that reports them; 0 for none.
        self._xids: dict[str, int] = {}
        self._events = self._listen()

    def close(self) -> None:
        """End the use of the library."""
        self._nvml.nvmlShutdown()

    def read(self) -> list[Reading]:
        """Every GPU now, in the order of the driver."""
        self._hear()
        return [self._reading(index, device) for index, device in enumerate(self._devices)]

    def _reading(self, index: int, device: Any) -> Reading:
        nvml, ask = self._nvml, self._ask
        rates = ask(nvml.nvmlDeviceGetUtilizationRates, device)
        memory = ask(nvml.nvmlDeviceGetMemoryInfo, device, getattr(nvml, "nvmlMemory_v2", None))
        milliwatts = ask(nvml.nvmlDeviceGetPowerUsage, device)
        uuid = _text(nvml.nvmlDeviceGetUUID(device))
        return Reading(
            index,
            uuid,
            _text(nvml.nvmlDeviceGetName(device)),
            bus=_text(nvml.nvmlDeviceGetPciInfo(device).busId),
            driver=self._driver,
            utilisation=None if rates is None else rates.gpu,
            copy_utilisation=None if rates is None else rates.memory,
            memory_used=None if memory is None else memory.used // _MIB,
            memory_free=None if memory is None else memory.free // _MIB,
            memory_reserved=None if memory is None else getattr(memory, "reserved", 0) // _MIB,
            power=None if milliwatts is None else milliwatts / 1000,
            energy=ask(nvml.nvmlDeviceGetTotalEnergyConsumption, device),
            temperature=ask(nvml.nvmlDeviceGetTemperature, device, nvml.NVML_TEMPERATURE_GPU),
            sm_clock=ask(nvml.nvmlDeviceGetClockInfo, device, nvml.NVML_CLOCK_SM),
            memory_clock=ask(nvml.nvmlDeviceGetClockInfo, device, nvml.NVML_CLOCK_MEM),
            xid=self._xids.get(uuid),
        )

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """An answer; None where this GPU does not support the question."""
        with contextlib.suppress(self._nvml.NVMLError):
            return question(*arguments)
        return None

    def _listen(self) -> Any:
        """A set of events that hears errors of each GPU that reports them; None where the driver offers none."""
        try:
            events = self._nvml.nvmlEventSetCreate()
        except self._nvml.NVMLError:
            return None
        for device in self._devices:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlDeviceRegisterEvents(device, self._nvml.nvmlEventTypeXidCriticalError, events)
                self._xids[_text(self._nvml.nvmlDeviceGetUUID(device))] = 0
        return events

    def _hear(self) -> None:
        for event in self._waiting():
            with contextlib.suppress(self._nvml.NVMLError):
                self._xids[_text(self._nvml.nvmlDeviceGetUUID(event.device))] = int(event.eventData)

    def _waiting(self, most: int = 1000) -> Iterator[Any]:
        # NVML answers with an error where no event waits, and 0 ms is how long it may wait for one.
        with contextlib.suppress(self._nvml.NVMLError):
            for _ in range(most if self._events is not None else 0):
                yield self._nvml.nvmlEventSetWait_v2(self._events, 0)


def _text(value: Any) -> str:
    """Old versions of the library answer with bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
