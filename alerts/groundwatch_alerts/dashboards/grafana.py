"""Make the JSON files of this folder: ``python -m groundwatch_alerts.dashboards.grafana``.

Needs the extra ``test``; a deployment uses the files. They were validated and their queries run, but no Grafana
rendered them here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models

from groundwatch_alerts.dashboards.panels import BOARDS, Board, Panel, Query

FOLDER = Path(__file__).parent
CONSOLE = "${console}"
RUNBOOKS = "${runbooks}"
_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_LIMIT = "L"  # the query of what was promised
_WIDTH, _HEIGHT, _COLUMNS = 12, 9, 24
_LABELS = {"app": "rag_requests_total", "criterion": "rag_judged_total", "judge": "rag_judged_total"}


def json_of(board: Board) -> str:
    """The dashboard as Grafana imports it."""
    builder = (
        dashboard.Dashboard(board.title)
        .uid(board.uid)
        .description(board.description)
        .tags(["groundwatch"])
        .refresh("1m")
        .time("now-24h", "now")
        .timezone("utc")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(_others())
    )
    for variable in _variables():
        builder = builder.with_variable(variable)
    for index, panel in enumerate(board.panels):
        row, column = divmod(index * _WIDTH, _COLUMNS)
        place = models.GridPos(h=_HEIGHT, w=_WIDTH, x=column, y=row * _HEIGHT)
        builder = builder.with_panel(_panel(panel, place, index + 1))
    return JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(builder.build()) + "\n"


def _others() -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink("Groundwatch")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags(["groundwatch"])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )


def _variables() -> Iterator[dashboard.DatasourceVariable | dashboard.QueryVariable | dashboard.ConstantVariable]:
    yield dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    for label, metric in _LABELS.items():
        yield (
            dashboard.QueryVariable(label)
            .label(label.capitalize())
            .datasource(_SOURCE)
            .query(f"label_values({metric}, {label})")
            .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .include_all(True)
            .all_value(".*")
            .multi(True)
        )
    yield dashboard.ConstantVariable("console").value("http://127.0.0.1:4390")
    yield dashboard.ConstantVariable("runbooks").value("docs/runbooks")


def _panel(panel: Panel, place: models.GridPos, number: int) -> timeseries.Panel | stat.Panel:
    builder = _number() if panel.look == "number" else _lines(panel)
    builder.id(number).title(panel.title).unit(panel.unit).datasource(_SOURCE).grid_pos(place)
    builder.description(panel.description).links(list(_links(panel)))
    for index, query in enumerate(panel.queries):
        builder.with_target(_target(query, chr(ord("A") + index)))
    if panel.limit is not None:
        builder.with_target(_target(panel.limit, _LIMIT))
    return builder


def _number() -> stat.Panel:
    return stat.Panel().no_value("nothing judged")


def _lines(panel: Panel) -> timeseries.Panel:
    builder = timeseries.Panel().min(0).line_width(2).show_points(kinds.VisibilityMode.NEVER)
    builder.legend(common.VizLegendOptions().show_legend(True).display_mode(kinds.LegendDisplayMode.LIST))
    if panel.look == "band":
        # Lower and upper bound: thin lines, and the room between them filled.
        thin = [models.DynamicConfigValue(id_val="custom.lineWidth", value=0)]
        filled = [*thin, models.DynamicConfigValue(id_val="custom.fillOpacity", value=12)]
        builder.override_by_query("B", thin).override_by_query("C", filled)
    if panel.limit is not None:
        dashed = models.DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [10, 10]})
        builder.override_by_query(_LIMIT, [dashed])
    if any(query.expr.startswith("rag_version_") for query in panel.queries):
        builder.min(-1 if panel.unit == "percentunit" else -10)
    return builder


def _links(panel: Panel) -> Iterator[dashboard.DashboardLink]:
    yield dashboard.DashboardLink("Console").type(models.DashboardLinkType.LINK).url(CONSOLE + panel.page)
    if panel.runbook:
        url = f"{RUNBOOKS}/{panel.runbook}.md"
        yield dashboard.DashboardLink("Runbook").type(models.DashboardLinkType.LINK).url(url)


def _target(query: Query, letter: str) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(letter).exemplar(query.exemplars)
    )


def write(folder: Path = FOLDER) -> None:
    """Write every dashboard into *folder*, named by its uid."""
    for board in BOARDS:
        (folder / f"{board.uid}.json").write_text(json_of(board))


if __name__ == "__main__":
    write()
