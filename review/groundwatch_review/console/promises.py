"""Routes of the pages about versions and objectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Engine
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from groundwatch_alerts.objectives import AlertsConfig, Objective
from groundwatch_alerts.version_comparison import MIN_JUDGED
from groundwatch_collector.storage import reader
from groundwatch_scorer.judgement import Criterion

from .. import queries
from . import alertspage, versionspage
from .rendering import Page
from .sidebyside import SideBySide


class Promised:
    def __init__(
        self,
        engine: Engine,
        now: Callable[[], float],
        objectives: Sequence[Objective],
        config: AlertsConfig,
        *,
        page: Page,
        sides: SideBySide,
    ) -> None:
        self._engine = reader(engine)
        self._now = now
        self._objectives = objectives
        self._config = config
        self._page = page
        self._sides = sides

    def routes(self) -> list[Route]:
        return [Route("/versions", self.versions), Route("/objectives", self.alerts), Route("/alerts", self.moved)]

    def versions(self, request: Request) -> Response:
        asked = request.query_params
        with queries.snapshot(self._engine) as connection:
            apps = [seen.app for seen in queries.apps(connection)]
            if not apps:
                return RedirectResponse("/", 303)
            app = _one_of(apps, asked.get("app", ""))
            shown = versionspage.read(connection, app, asked.get("a", ""), asked.get("b", ""))
            pair = shown.pair
            same = [] if pair is None else self._sides.pairs(request, connection, app, pair.a, pair.b)
        context = {"v": shown, "app": app, "apps": apps, "enough": MIN_JUDGED, "same": same}
        return self._page(request, "versions.html", context)

    def moved(self, request: Request) -> Response:
        """Links of before lead on, with all that they ask for."""
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"/objectives{query}", 308)

    def alerts(self, request: Request) -> Response:
        with queries.snapshot(self._engine) as connection:
            apps = [seen.app for seen in queries.apps(connection)]
            if not apps:
                return RedirectResponse("/", 303)
            app = _one_of(apps, request.query_params.get("app", ""))
            judge = next(iter(queries.judges(connection, app, Criterion.ANY_FAILURE)), "")
        shown = alertspage.read(self._engine, app, judge, self._objectives, config=self._config, now=self._now())
        return self._page(request, "alerts.html", {"a": shown, "app": app, "apps": apps})


def _one_of(apps: list[str], asked: str) -> str:
    return asked if asked in apps else apps[0]
