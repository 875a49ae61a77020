"""The settings of the proxy: `BULKHEAD_PROXY_*`, which the chart sets. A value that makes no sense stops it at its start."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Final

from frontdoor.haproxy import Limits

_FILES_NOT_OF_CONNECTIONS: Final = 300


class SettingsError(ValueError):
    """A setting cannot be used; the text names its variable."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The folder of files and sockets, the port for metrics, and the limits."""

    folder: Path = Path("/run/proxy")
    http_port: int = 8080
    limits: Limits = field(default_factory=Limits)


def load(environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings; unset variables keep their defaults."""
    limits = Limits()
    for limit in fields(Limits):
        variable = f"BULKHEAD_PROXY_{limit.name.upper()}"
        if variable in environment:
            limits = replace(limits, **{limit.name: _number(variable, environment[variable])})
    if limits.connections < 1 or not 1 <= limits.threads <= 64:
        raise SettingsError("BULKHEAD_PROXY_CONNECTIONS, BULKHEAD_PROXY_THREADS: at least 1, and at most 64 threads")
    folder = environment.get("BULKHEAD_PROXY_FOLDER", str(Settings().folder))
    if not folder.startswith("/") or not folder.replace("/", "").replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise SettingsError(f"BULKHEAD_PROXY_FOLDER: must be an absolute path of letters, digits and - _ ., not {folder!r}")
    return Settings(
        Path(folder), _number("BULKHEAD_PROXY_HTTP_PORT", environment.get("BULKHEAD_PROXY_HTTP_PORT", "8080")), limits
    )


def within(settings: Settings, files: int) -> Settings:
    """The settings for an HAProxy that may open this many files (negative: any number): each connection takes two."""
    most = max((files - _FILES_NOT_OF_CONNECTIONS) // 2, 1)
    limits = settings.limits
    return settings if files < 0 or limits.connections <= most else replace(settings, limits=replace(limits, connections=most))


def _number(variable: str, text: str) -> int:
    if not text.isdigit() or int(text) > 10_000_000:
        raise SettingsError(f"{variable}: must be a number from 0 to 10000000, not {text!r}")
    return int(text)
