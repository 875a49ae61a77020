"""docs/metrics.md has every metric that is exported, and none that is not."""

import re
from pathlib import Path

from prometheus_client import REGISTRY

from syncer.metrics import REGISTRY as OF_SYNCER
from tests.observing.exported import DATA, MODULES, exported, recorded
from tests.observing.page import PAGE, ROOT, page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make docs"


def test_each_metric_of_the_registries_is_on_the_page() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", page(), re.MULTILINE))
    there = {
        f"{metric.name}_total" if metric.type == "counter" else metric.name
        for registry in (REGISTRY, OF_SYNCER)
        for metric in registry.collect()
        if metric.name.startswith(("bulkhead_", "process_start", "process_resident", "process_cpu"))
    }
    assert len(there) > 60
    assert there - rows == set()
    assert {row for row in rows if row.startswith("bulkhead_")} - there == set()


def test_a_metric_is_recorded_with_its_first_release_and_one_that_is_gone_is_not() -> None:
    assert DATA.read_text(encoding="utf-8") == recorded(), "run make docs"


def test_every_module_with_metrics_is_read() -> None:
    known = {Path(module.__file__ or "").relative_to(ROOT) for modules in MODULES.values() for module in modules}
    making = re.compile(r"^from prometheus_client import .*\b(Counter|Gauge|Histogram|Summary)\b", re.MULTILINE)
    several = re.compile(r"^from prometheus_client import \([^)]*\b(Counter|Gauge|Histogram|Summary)\b", re.MULTILINE)
    found = {
        path.relative_to(ROOT)
        for folder in ("bulkhead", "controller", "syncer", "frontdoor", "gpumetrics", "workstation")
        for path in (ROOT / folder).rglob("*.py")
        for text in (path.read_text(encoding="utf-8"),)
        if making.search(text) or several.search(text)
    }
    assert found == known, "name it in MODULES of tests/observing/exported.py"


def test_each_meaning_is_a_sentence() -> None:
    for metric in exported():
        assert re.fullmatch(r"[A-Z0-9].*[.:].*|.*\.", metric.meaning), metric
        assert metric.meaning.endswith("."), metric


def test_a_name_says_its_unit_and_what_it_counts() -> None:
    """Counters end in _total, which the library adds; times are in seconds, sizes in bytes."""
    for metric in exported():
        assert not re.search(r"_(ms|millis|minutes|mib|kib)(_|$)", metric.name), metric.name
