"""The dashboards: a Prometheus accepts each query, each metric in it is documented, and the chart ships them.

Costs 5 s.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit import promtool
from tests.kit.helmchart import CHART, rendered
from tests.observing import boards as boards_of
from tests.observing.__main__ import files
from tests.observing.boards import Board, BoardError, boards
from tests.observing.exported import data, exported

ON = ("--set", "monitoring.enabled=true")
BOARDS = {board.name: board for board in boards()}
WANTED = {"fleet", "tenant", "ledger", "syncers", "planes", "frontdoor", "slurm"}


def dashboards(*arguments: str) -> list[dict[str, Any]]:
    objects = rendered(*ON, *arguments)
    return [obj for obj in objects if obj["kind"] == "ConfigMap" and obj["metadata"]["name"].startswith("bulkhead-dashboard-")]


def test_the_files_of_the_chart_are_up_to_date() -> None:
    for path, text in files().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run make docs"
    assert {path.stem for path in (CHART / "dashboards").iterdir()} == BOARDS.keys() == WANTED


def test_a_prometheus_accepts_every_query(tmp_path: Path) -> None:
    queries = [query.plain for board in BOARDS.values() for panel in board.panels for query in panel.queries]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    code, output = promtool.run("check", "rules", str(path))
    assert code == 0, output
    assert f"{len(queries)} rules found" in output
    assert not [query for query in queries if "$" in query]


def test_a_prometheus_refuses_a_query_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(
        yaml.safe_dump({"groups": [{"name": "queries", "rules": [{"record": "one", "expr": "sum(bulkhead{) by"}]}]})
    )
    assert promtool.run("check", "rules", str(path))[0] != 0


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_each_metric_of_a_query_is_documented(board: Board) -> None:
    known = {series for metric in exported() for series in metric.series}
    known |= {name for metrics in data()["others"].values() for name in metrics}
    for panel in board.panels:
        for query in panel.queries:
            assert query.metrics, f"{panel.title}: {query.expr}"
            assert query.metrics <= known, f"{panel.title}: {query.expr}"


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_each_label_of_a_query_is_one_of_its_metric(board: Board) -> None:
    """By names of labels in matchers and in `by`: a misspelt one would draw an empty panel."""
    labels = {series: {*metric.labels, "le", "instance"} for metric in exported() for series in metric.series}
    of_others = {"tenant", "proxy", "server", "instance"}
    for panel in board.panels:
        for query in panel.queries:
            named = set(re.findall(r"(\w+)(?:=~|!=|!~|=)\"", query.plain))
            named |= {
                name for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query.plain) for name in group.split(", ") if name
            }
            there = {label for name in query.metrics for label in labels.get(name, of_others)}
            # The scrape adds it to what syncers export.
            there |= {"tenant"} if any(name.startswith("bulkhead_syncer_") for name in query.metrics) else set()
            assert named <= there, f"{panel.title}: {query.expr}"


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_each_panel_says_what_it_shows(board: Board) -> None:
    for panel in board.panels:
        assert re.search(r"[.:]$", panel.says), panel.title
        assert panel.kind == "list" or len(panel.queries) < 2 or all(query.legend for query in panel.queries), panel.title
    assert len({panel.title for panel in board.panels}) >= len(board.panels) - 1


def test_a_field_that_no_panel_has_is_an_error() -> None:
    with pytest.raises(BoardError, match=r"boards/x.yaml: 'A' has \['untit'\]"):
        boards_of._panel("x", {"title": "A", "untit": "s", "expr": "up", "says": "."})


def test_the_chart_ships_each_under_the_label_that_grafanas_sidecar_looks_for() -> None:
    shipped = {obj["metadata"]["name"]: obj for obj in dashboards()}
    assert shipped.keys() == {f"bulkhead-dashboard-{name}" for name in WANTED}
    for obj in shipped.values():
        assert obj["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert obj["metadata"]["annotations"] == {"grafana_folder": "Bulkhead"}
        assert obj["metadata"]["namespace"] == "bulkhead-system"
        ((name, text),) = obj["data"].items()
        assert name.endswith(".json")
        assert json.loads(text)["uid"] == name.removesuffix(".json")
        assert len(text) < 200_000


def test_label_folder_and_namespace_are_the_admins_choice() -> None:
    chosen = {"label": "example.org/board", "labelValue": "yes", "namespace": "grafana", "folderAnnotation": ""}
    (first, *_) = dashboards(
        *(part for key, value in chosen.items() for part in ("--set", f"monitoring.dashboards.{key}={value}"))
    )
    assert first["metadata"]["labels"]["example.org/board"] == "yes"
    assert first["metadata"]["namespace"] == "grafana"
    assert "annotations" not in first["metadata"]


def test_they_can_be_switched_off() -> None:
    assert dashboards("--set", "monitoring.dashboards.enabled=false") == []
    assert not [obj for obj in rendered() if "dashboard" in obj["metadata"]["name"]]


def test_the_text_of_a_dashboard_is_no_template() -> None:
    """Legends have {{tenant}} in them, which Helm must not touch."""
    texts = [text for obj in dashboards() for text in obj["data"].values()]
    assert any('"legendFormat": "{{tenant}} {{member}}"' in text for text in texts)


def test_haproxys_metrics_are_scraped_and_thinned() -> None:
    (proxy,) = [
        obj
        for obj in rendered(*ON, "--set", "exposure.domains={k8s.example.org}")
        if obj["kind"] == "PodMonitor" and obj["metadata"]["name"] == "bulkhead-proxy"
    ]
    (endpoint,) = [point for point in proxy["spec"]["podMetricsEndpoints"] if point["port"] == "haproxy-metrics"]
    keep, rename = endpoint["metricRelabelings"]
    read = {name for board in BOARDS.values() for panel in board.panels for query in panel.queries for name in query.metrics}
    assert {name for name in read if name.startswith("haproxy_")} == {
        name for name in data()["others"]["HAProxy, in the proxy's pods"] if re.fullmatch(keep["regex"], name)
    }
    assert re.fullmatch(rename["regex"], "planes;red")
    assert rename["targetLabel"] == "tenant"
