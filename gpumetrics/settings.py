"""The settings: `BULKHEAD_GPUMETRICS_*`, which the chart sets. A value that makes no sense stops the program at its start."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from bulkhead.api import names
from bulkhead.gpus.attribution import SETTLE_SECONDS

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_BOUNDS: Final = {
    "port": (0, 65535),
    "listen_port": (1, 65535),
    "concurrency": (1, 1000),
    "interval_seconds": (1, 3600),
    "settle_seconds": (0, 7200),
    "deadline_seconds": (1, 60),
    "kubelets": (0, 1),
    "verify_kubelets": (0, 1),
    "kubelet_interval_seconds": (10, 3600),
}


class SettingsError(ValueError):
    """A setting cannot be used; the text names its variable."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`port` 0 takes the exporters' own first port. `settle_seconds` is at least twice what exporters measure in."""

    own_namespace: str = names.SYSTEM_NAMESPACE
    namespace: str = "gpu-operator"
    service: str = "nvidia-dcgm-exporter"
    port: int = 0
    listen_port: int = 8080
    concurrency: int = 64
    interval_seconds: float = 30.0
    settle_seconds: float = SETTLE_SECONDS
    deadline_seconds: float = 5.0
    # Whether kubelets are asked for network and disk, and whether their certificates must be of the cluster's CA.
    kubelets: int = 0
    verify_kubelets: int = 1
    kubelet_interval_seconds: float = 60.0


def load(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings; unset variables keep their defaults."""
    found: dict[str, Any] = {}
    for setting in fields(Settings):
        variable = f"BULKHEAD_GPUMETRICS_{setting.name.upper()}"
        if variable in environment:
            found[setting.name] = _value(variable, setting.name, environment[variable])
    return Settings(**found)


def _value(variable: str, name: str, text: str) -> str | float:
    if name not in _BOUNDS:
        if not _NAME.fullmatch(text):
            raise SettingsError(f"{variable}: must be the name of an object, not {text!r}")
        return text
    low, high = _BOUNDS[name]
    if not text.isdecimal() or not low <= int(text) <= high:
        raise SettingsError(f"{variable}: must be a number from {low} to {high}, not {text!r}")
    return int(text)
