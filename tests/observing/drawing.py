"""A dashboard as Grafana's JSON, built by Grafana's own library.

Everything that could differ between two runs is fixed (identifiers, order), so the files in the chart change only if a board
does.
"""

import itertools
from typing import Any, Final, TypeAlias

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from tests.observing.boards import Board, Panel

Drawn: TypeAlias = stat.Panel | table.Panel | timeseries.Panel
_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
_TAG: Final = "bulkhead"
# Grafana's page is 24 wide.
_WIDTHS: Final = {"number": 4, "list": 12, "graph": 12}
_HEIGHTS: Final = {"number": 4, "list": 8, "graph": 8}
_RUNBOOKS: Final = "Alerts and what to do about them: docs/runbooks.md. Metrics: docs/metrics.md."


def drawn(board: Board) -> str:
    """The dashboard's JSON."""
    made = (
        dashboard.Dashboard(board.title)
        .uid(f"bulkhead-{board.name}")
        .description(f"{board.says} {_RUNBOOKS}")
        .tags([_TAG])
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(dashboard.DashboardLink("Bulkhead").tags([_TAG]).type("dashboards").as_dropdown(True).keep_time(True))
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    if board.choice:
        made = made.with_variable(_tenants(several=board.choice == "tenants"))
    numbers = itertools.count(1)
    for row in board.rows:
        made = made.with_row(dashboard.Row(row.title).id(next(numbers)))
        for panel in row.panels:
            made = made.with_panel(_panel(panel).id(next(numbers)))
    return JSONEncoder(sort_keys=True, indent=1).encode(made.build()) + "\n"


def _tenants(*, several: bool) -> dashboard.QueryVariable:
    variable = (
        dashboard.QueryVariable("tenant")
        .label("Tenant")
        .query("label_values(bulkhead_tenant_ready, tenant)")
        .datasource(_SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    return variable.multi(True).include_all(True).all_value(".+") if several else variable


def _panel(panel: Panel) -> Any:
    made: Drawn
    match panel.kind:
        case "number":
            latest = common.ReduceDataOptions().calcs(["lastNotNull"])
            made = stat.Panel().graph_mode(BigValueGraphMode.NONE).color_mode(BigValueColorMode.VALUE).reduce_options(latest)
            made = made.no_value("no data")
        case "list":
            made = table.Panel().no_value("none")
        case _:
            made = _graph(panel)
    made = (
        made.title(panel.title)
        .description(panel.says)
        .datasource(_SOURCE)
        .unit(panel.unit)
        .span(_WIDTHS[panel.kind])
        .height(_HEIGHTS[panel.kind])
        .thresholds(_thresholds(panel.bad))
    )
    for letter, query in zip("ABCDEFGH", panel.queries, strict=False):
        asked = prometheus.Dataquery().expr(query.expr).legend_format(query.legend or "__auto").ref_id(letter)
        asked = asked.range() if panel.kind == "graph" else asked.instant()
        if panel.kind == "list":
            asked = asked.format(PromQueryFormat.TABLE)
        made = made.with_target(asked)
    return made


def _graph(panel: Panel) -> timeseries.Panel:
    made = (
        timeseries.Panel()
        .min(0)
        .fill_opacity(30 if panel.stacked else 5)
        .legend(
            common.VizLegendOptions().display_mode(LegendDisplayMode.TABLE).placement(LegendPlacement.BOTTOM).show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    )
    if panel.bad is not None:
        made = made.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    return made.stacking(common.StackingConfig().mode(StackingMode.NORMAL)) if panel.stacked else made


def _thresholds(bad: float | None) -> dashboard.ThresholdsConfig:
    """Nothing is red unless it says from where on. The pictures rely on numbers and lines, not on the colour."""
    steps = [Threshold(value=None, color="blue" if bad is None else "green")]
    steps += [Threshold(value=float(bad), color="red")] if bad is not None else []
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)
