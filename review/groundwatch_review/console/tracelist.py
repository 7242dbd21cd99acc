"""The list of traces: filters that stand in the address, and saved views of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from sqlalchemy import Connection, Engine
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from groundwatch_collector.ragtrace import Outcome
from groundwatch_collector.storage import reader
from groundwatch_scorer.judgement import Criterion, FaultLayer

from .. import queries, saved_views
from ..audit import Action, AuditLog
from ..desk import Refused
from ..queries import TraceFilter, TraceRow
from ..saved_views import SavedView
from . import addresses
from .access import Permission, Principal, principal_of
from .config import WINDOWS, ConsoleConfig
from .guard import Forbidden, read_form
from .rawviews import RawViews
from .rendering import Page, href

_LAST_MOMENT = 253_402_300_799.0  # the end of the year 9999
VERDICTS = ("fail", "pass", "not_applicable", "unscored", "waiting", "not_sampled")
CRITERIA = tuple(criterion for criterion in Criterion if criterion is not Criterion.ANY_FAILURE)
SENTIMENTS = ("negative", "neutral", "positive")
_VIEW_ID = re.compile(r"sv_[0-9a-f]{16}")
_KEPT = (
    "app",
    "version",
    "verdict",
    "criterion",
    "layer",
    "outcome",
    "stratum",
    "feedback",
    "window",
    "sort",
    "q",
    "since",
    "until",
)
"""Parameters of the list that a saved view holds, as they stand in its address."""


@dataclass(frozen=True, slots=True)
class ViewLink:
    """A saved view as the page offers it."""

    view: SavedView
    key: str  # that opens it; "" beyond the ninth
    mine: bool
    removable: bool
    chosen: bool  # the page shows it right now


class TraceList:
    def __init__(
        self,
        engine: Engine,
        config: ConsoleConfig,
        now: Callable[[], float],
        *,
        audit: AuditLog,
        views: RawViews,
        page: Page,
        waiting: Callable[[Connection, str, Request], int],
    ) -> None:
        self._engine = engine
        self._config = config
        self._now = now
        self._audit = audit
        self._views = views
        self._page = page
        self._waiting = waiting

    def routes(self) -> list[Route]:
        return [
            Route("/traces", self.traces),
            Route("/views", self.save, methods=["POST"]),
            Route("/views/{view_id}", self.open),
            Route("/views/{view_id}/remove", self.remove, methods=["POST"]),
        ]

    def traces(self, request: Request) -> Response:
        asked = request.query_params
        who = principal_of(request)
        with queries.snapshot(self._engine) as connection:
            apps = [seen.app for seen in queries.apps(connection)]
            if not apps:
                return self._page(request, "empty.html", {"collector_url": self._config.collector_url})
            wanted = self._filter(asked, apps, who)
            size = self._config.page_size
            rows = queries.trace_rows(connection, wanted, size + 1, _cursor(asked.get("after", "")))
            window = _window(asked.get("window", ""), "all")
            parameters = _parameters(wanted, window)
            context = {
                "f": wanted,
                "window": window,
                "rows": rows[:size],
                "after": _cursor_text(rows[size - 1]) if len(rows) > size else "",
                "first_page": "after" not in asked,
                "apps": apps,
                "versions": [version for version, _first in queries.versions(connection, wanted.app)],
                "strata": queries.strata_seen(connection, wanted.app),
                "needs_review": self._waiting(connection, wanted.app, request),
                "app": wanted.app,
                "parameters": parameters,
                "saved": _links(saved_views.seen_by(connection, who.actor), who, urlencode(parameters)),
            }
        context["rows"] = self._views.questions(request, rows[:size])
        return self._page(request, "traces.html", {**context, **closed_sets()})

    def _filter(self, asked: Mapping[str, str], apps: list[str], who: Principal) -> TraceFilter:
        def one_of(name: str, known: tuple[str, ...]) -> str:
            return found if (found := asked.get(name, "")) in known else ""

        app = asked.get("app", "")
        length = WINDOWS[_window(asked.get("window", ""), "all")]
        return TraceFilter(
            app=app if app in apps else apps[0],
            version=asked.get("version", "")[:200],
            stratum=asked.get("stratum", "")[:200],
            outcome=one_of("outcome", tuple(Outcome)),
            verdict=one_of("verdict", VERDICTS),
            criterion=one_of("criterion", CRITERIA),
            layer=one_of("layer", tuple(FaultLayer)),
            feedback=one_of("feedback", SENTIMENTS),
            since=_moment(asked.get("since", ""), None if length is None else self._now() - length),
            until=_moment(asked.get("until", ""), None),
            # What a search finds would tell what the raw texts say.
            search=asked.get("q", "").strip()[:200] if who.may(Permission.READ_RAW) else "",
            sort=one_of("sort", ("newest", "worst")) or "newest",
        )

    # Saved views

    def open(self, request: Request) -> Response:
        """Lead to the list with the filters of a view: what is chosen stands in the address there, as always."""
        return RedirectResponse(href("/traces") + f"?{self._known(request).query}", 303)

    async def save(self, request: Request) -> Response:
        form = await read_form(request)
        return await run_in_threadpool(self._save, request, form)

    def _save(self, request: Request, form: Mapping[str, str]) -> Response:
        who = principal_of(request)
        query = urlencode(self._parameters_of(form, who))
        name = " ".join(form.get("name", "").split())
        view = SavedView(saved_views.new_view_id(), who.actor, name, query, form.get("shared") == "yes")
        number = self._audit.append(who.actor, Action.VIEW_SAVED, view.view_id, "shared" if view.shared else "own")
        try:
            saved_views.save(self._engine, view, self._now())
        except Refused:
            self._audit.append(who.actor, Action.REFUSED, view.view_id, f"entry {number}")
            raise
        return RedirectResponse(f"{href('/traces')}?{query}", 303)

    def _parameters_of(self, form: Mapping[str, str], who: Principal) -> dict[str, str]:
        """The filters that a form carries, each one checked as if it stood in the address."""
        asked = dict(parse_qsl(form.get("filters", "")[: 2 * saved_views.QUERY_LIMIT_CHARACTERS]))
        with reader(self._engine).connect() as connection:
            apps = [seen.app for seen in queries.apps(connection)]
        wanted = self._filter(asked, apps or [""], who)
        return _parameters(wanted, _window(asked.get("window", ""), "all"))

    async def remove(self, request: Request) -> Response:
        form = await read_form(request)
        return await run_in_threadpool(self._remove, request, form)

    def _remove(self, request: Request, form: Mapping[str, str]) -> Response:
        view = self._known(request)
        if not _removable(view, principal_of(request)):
            raise Forbidden("a shared view is removed by who made it, or by an admin")
        saved_views.remove(self._engine, view.view_id)
        query = urlencode(self._parameters_of(form, principal_of(request)))
        return RedirectResponse(f"{href('/traces')}?{query}", 303)

    def _known(self, request: Request) -> SavedView:
        """The view of this address. Raises 404 for one that is not there, or is somebody else's own."""
        view_id, who = str(request.path_params["view_id"]), principal_of(request)
        found = None
        if _VIEW_ID.fullmatch(view_id):
            with reader(self._engine).connect() as connection:
                found = saved_views.find(connection, view_id)
        if found is None or not _shown_to(found, who):
            raise HTTPException(404, "No saved view with this identifier is here.")
        return found


def _links(views: list[SavedView], who: Principal, shown: str) -> list[ViewLink]:
    return [
        ViewLink(
            view=view,
            key=str(number) if number <= 9 else "",
            mine=view.owner == who.actor,
            removable=_removable(view, who),
            chosen=view.query == shown,
        )
        for number, view in enumerate((view for view in views if _shown_to(view, who)), 1)
    ]


def _shown_to(view: SavedView, who: Principal) -> bool:
    """A view with a search is not for those who may not search: it would find something else than it says."""
    if "q" in dict(parse_qsl(view.query)) and not who.may(Permission.READ_RAW):
        return False
    return view.shared or view.owner == who.actor


def _removable(view: SavedView, who: Principal) -> bool:
    return view.owner == who.actor or (view.shared and who.may(Permission.MANAGE_USERS))


def _parameters(wanted: TraceFilter, window: str) -> dict[str, str]:
    """What the address of this list says, in one order, without what is said by default."""
    found = {
        "app": wanted.app,
        "version": wanted.version,
        "verdict": wanted.verdict,
        "criterion": wanted.criterion if wanted.verdict else "",
        "layer": wanted.layer,
        "outcome": wanted.outcome,
        "stratum": wanted.stratum,
        "feedback": wanted.feedback,
        "window": "" if window == "all" else window,
        "sort": "" if wanted.sort == "newest" else wanted.sort,
        "q": wanted.search,
    }
    if wanted.until is not None:  # a stretch of time that was picked; the window alone moves with the clock
        found |= {"since": "" if wanted.since is None else f"{wanted.since!r}", "until": f"{wanted.until!r}"}
    return {name: value for name, value in found.items() if value}


def closed_sets() -> dict[str, tuple[str, ...]]:
    return {
        "outcomes": tuple(Outcome),
        "verdicts": VERDICTS,
        "criteria": CRITERIA,
        "layers": tuple(FaultLayer),
        "sentiments": SENTIMENTS,
        "windows": tuple(WINDOWS),
    }


def _window(text: str, default: str) -> str:
    return text if text in WINDOWS else default


def _moment(text: str, default: float | None) -> float | None:
    """Unix seconds in *text*; the default for what is no time that a page could write."""
    try:
        return found if 0.0 <= (found := float(text)) <= _LAST_MOMENT else default
    except ValueError:
        return default


def _cursor(text: str) -> tuple[float, float, str] | None:
    """Place in a list that an earlier page ended with; an odd one starts the list again."""
    parts = text.split("~")
    if len(parts) != 3 or not addresses.TRACE_ID.fullmatch(parts[2]):
        return None
    try:
        return float(parts[0]), float(parts[1]), parts[2]
    except ValueError:
        return None


def _cursor_text(row: TraceRow) -> str:
    return f"{row.badness!r}~{row.started_at!r}~{row.trace_id}"
