"""docs/metrics.md, written from what the programs export."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.observing.exported import MODULES, Exported, data, exported

ROOT: Final = Path(__file__).parent.parent.parent
PAGE: Final = ROOT / "docs" / "metrics.md"
_WHERE: Final = {
    "controller": """Port 8080 of each pod of the controller. Metrics of tenants and of the ledger come from the pod that
leads; a pod that loses the lease drops them. A tenant has 60 series at the most, with
one line of quota; each further flavor or resource of its quota adds twelve.""",
    "syncer": """Port 8080 of each tenant's syncer. The scrape adds the label `tenant`. A syncer at rest has 150 series, one at
work on every kind 435 at the most.""",
    "proxy": "Port 8080 of each pod of the proxy.",
    "gpumetrics": "Port 8080 of the pod `bulkhead-gpumetrics`, where the chart's `gpuMetrics` is on.",
}
_HEAD: Final = """# Metrics

For platform admins. `make docs` writes this page from the programs themselves; do not edit it. [Dashboards](dashboards.md)
and [alerts](runbooks.md) read these metrics. `tenant` is the only label whose values people choose; those of all others are
few, and fixed in a release. A histogram has series with `_bucket`, `_sum` and `_count`, a summary with `_sum` and `_count`.
"""


def page() -> str:
    """The whole page. Raises KeyError for a metric of which metrics.yaml does not say since when it is there."""
    recorded = data()
    lines = [_HEAD]
    metrics = exported()
    for program in MODULES:
        lines += [f"## {program.capitalize()}", _WHERE[program], ""]
        lines += ["| metric | type | labels | meaning | since |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(metric, recorded["since"][metric.name]) for metric in metrics if metric.program == program]
        lines += [""]
    lines += ["## Of other programs", "Dashboards and alerts also read these, if they are scraped.", ""]
    lines += ["| metric | of | meaning |", "| --- | --- | --- |", *_others(recorded), ""]
    lines += ["Next: [dashboards](dashboards.md) · [runbooks](runbooks.md)", ""]
    return "\n".join(lines)


def _row(metric: Exported, since: str) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "none"
    return f"| `{metric.name}` | {metric.type} | {labels} | {_cell(metric.meaning)} | {since} |"


def _others(recorded: dict[str, Any]) -> Iterator[str]:
    for program, metrics in recorded["others"].items():
        for name, meaning in metrics.items():
            yield f"| `{name}` | {program} | {_cell(meaning)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
