"""The dashboards as data: boards/*.yaml, one for each, decoded and checked.

    boards/<name>.yaml ──> Board ──> rows ──> panels ──> queries

A query may use $tenant, $__rate_interval and what Prometheus knows. `empty` is the reason for which a panel may have no data
while the demo runs; without it, the scenario fails for a panel without data.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import yaml

FOLDER: Final = Path(__file__).with_name("boards")
Kind = Literal["graph", "number", "list"]
_KNOWN: Final = {"title", "kind", "unit", "expr", "legend", "queries", "says", "bad", "stacked", "empty"}
# What a Prometheus gets in place of Grafana's variables.
_INSTEAD: Final = {"$__rate_interval": "1m", "$tenant": ".+"}


class BoardError(ValueError):
    """A file of boards has something that is not known."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query, and the name of its series in the legend."""

    expr: str
    legend: str

    @property
    def plain(self) -> str:
        """The query without Grafana's variables: for all tenants, over the last minute."""
        text = self.expr
        for variable, value in _INSTEAD.items():
            text = text.replace(variable, value)
        return text

    @property
    def metrics(self) -> frozenset[str]:
        """The names of the metrics that it reads."""
        without_strings = re.sub(r'"[^"]*"', "", self.plain)
        return frozenset(re.findall(r"\b(?:bulkhead|process|haproxy|kube)_[a-z0-9_]+\b", without_strings))


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture. `bad` is the number from which on it is drawn as a fault."""

    title: str
    kind: Kind
    unit: str
    queries: tuple[Query, ...]
    says: str
    bad: float | None
    stacked: bool
    empty: str


@dataclass(frozen=True, slots=True)
class Row:
    """Panels with a title above them."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard. `choice`: whether its user chooses one tenant, some, or none."""

    name: str
    title: str
    says: str
    choice: Literal["", "tenant", "tenants"]
    rows: tuple[Row, ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels."""
        return tuple(panel for row in self.rows for panel in row.panels)


def boards() -> tuple[Board, ...]:
    """Every dashboard, by name. Raises BoardError for a field that is not known."""
    return tuple(_board(path.stem, yaml.safe_load(path.read_text(encoding="utf-8"))) for path in sorted(FOLDER.glob("*.yaml")))


def _board(name: str, data: dict[str, Any]) -> Board:
    (choice,) = data.get("variables") or [""]
    rows = tuple(Row(row["title"], tuple(_panel(name, panel) for panel in row["panels"])) for row in data["rows"])
    return Board(name, data["title"], data["says"], choice, rows)


def _panel(board: str, data: dict[str, Any]) -> Panel:
    if strange := data.keys() - _KNOWN:
        raise BoardError(f"boards/{board}.yaml: {data.get('title')!r} has {sorted(strange)}, which no panel has")
    queries = data.get("queries") or [{"expr": data["expr"], "legend": data.get("legend", "")}]
    return Panel(
        title=data["title"],
        kind=data.get("kind", "graph"),
        unit=data.get("unit", "short"),
        queries=tuple(Query(query["expr"], query["legend"]) for query in queries),
        says=data["says"],
        bad=data.get("bad"),
        stacked=data.get("stacked", False),
        empty=data.get("empty", ""),
    )
