"""The metrics that Bulkhead's programs export, read from the programs themselves.

modules with metrics ──> Exported: name, type, labels, program, meaning
metrics.yaml ──> since which release, and the metrics of other programs that dashboards read
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import yaml
from prometheus_client.metrics import MetricWrapperBase

from bulkhead import __version__
from controller import metrics as of_controller
from controller.dispatch import metrics as of_ledger
from controller.metering import metrics as of_metering
from frontdoor import metrics as of_proxy
from gpumetrics import metrics as of_gpumetrics
from syncer import metrics as of_syncer

DATA: Final = Path(__file__).with_name("metrics.yaml")
MODULES: Final[dict[str, tuple[ModuleType, ...]]] = {
    "controller": (of_controller, of_ledger, of_metering),
    "syncer": (of_syncer,),
    "proxy": (of_proxy,),
    "gpumetrics": (of_gpumetrics,),
}
_SUFFIXES: Final = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_count", "_sum"),
    "summary": ("_count", "_sum"),
}


@dataclass(frozen=True, slots=True)
class Exported:
    """One metric, under the name that Prometheus stores; of a histogram or summary, the name without its suffixes."""

    name: str
    type: str
    labels: tuple[str, ...]
    program: str
    meaning: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series."""
        return (self.name,) if self.type in {"counter", "gauge"} else tuple(f"{self.name}{end}" for end in _SUFFIXES[self.type])


def exported() -> tuple[Exported, ...]:
    """Every metric of Bulkhead's own, by program and name."""
    found = {
        (program, metric.name): metric
        for program, modules in MODULES.items()
        for module in modules
        for value in vars(module).values()
        for metric in _metrics(program, value)
    }
    return tuple(found[key] for key in sorted(found, key=lambda key: (list(MODULES).index(key[0]), key[1])))


def data() -> dict[str, Any]:
    """What metrics.yaml records."""
    loaded: dict[str, Any] = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    return loaded


def recorded() -> str:
    """The text of metrics.yaml with a line for each metric that has none yet, and without the lines of those that are gone."""
    text = DATA.read_text(encoding="utf-8")
    since = data()["since"]
    lines = [f"  {name}: {since.get(name, __version__)}" for name in (metric.name for metric in exported())]
    return text[: text.index("since:")] + "\n".join(["since:", *lines, ""])


def _metrics(program: str, value: object) -> Iterator[Exported]:
    """The metrics of a module's variable: one of the library, or a collector of our own."""
    if isinstance(value, MetricWrapperBase):
        labels = value._labelnames
        described = list(value.describe())
    elif hasattr(value, "collect") and type(value).__module__.startswith("frontdoor"):
        described = list(value.collect())
        labels = described[0]._labelnames
    else:
        return
    for metric in described:
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        yield Exported(name, metric.type, tuple(labels), program, metric.documentation)
