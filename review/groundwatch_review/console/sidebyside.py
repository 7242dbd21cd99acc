"""Two traces beside each other: the same question, asked of two versions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection, Engine
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .. import queries
from ..queries import TraceFilter, TraceRecord, TraceRow
from . import addresses
from .access import principal_of
from .rawviews import RawViews
from .rendering import Page
from .tracepage import trace_page

PAIRS_SHOWN = 12
_LOOKED_AT = 300  # traces of each version and verdict that pairs are sought among


@dataclass(frozen=True, slots=True)
class SameQuestion:
    """One question that failed in the newer version, and what the older one made of it."""

    query: str | None
    a: TraceRow
    b: TraceRow


class SideBySide:
    def __init__(self, engine: Engine, page: Page, views: RawViews) -> None:
        self._engine = engine
        self._page = page
        self._views = views

    def routes(self) -> list[Route]:
        return [Route("/compare", self.compare)]

    def compare(self, request: Request) -> Response:
        ids = [request.query_params.get(name, "") for name in ("a", "b")]
        with queries.snapshot(self._engine) as connection:
            records = [self._record(connection, trace_id) for trace_id in ids]
        raw = principal_of(request).everybody
        shown = [self._views.record(request, record, raw=raw) for record in records]
        context = {
            "sides": [
                (record, None if record.trace is None else trace_page(record, record.trace)) for record in shown
            ],
            "same": _words(shown[0].row.query) == _words(shown[1].row.query) != "",
            "app": shown[1].app,
        }
        return self._page(request, "compare.html", context)

    def _record(self, connection: Connection, trace_id: str) -> TraceRecord:
        found = queries.trace(connection, trace_id) if addresses.TRACE_ID.fullmatch(trace_id) else None
        if found is None:
            raise HTTPException(404, "Two traces are compared by their identifiers: /compare?a=TRACE&b=TRACE.")
        return found

    def pairs(self, request: Request, connection: Connection, app: str, a: str, b: str) -> list[SameQuestion]:
        """Questions that failed in *b* and were asked of *a* too, the most telling first."""
        before = {
            _words(row.query): row
            for verdict in ("fail", "pass")
            for row in _rows(connection, app, a, verdict, sort="newest")
        }
        found: dict[str, SameQuestion] = {}
        for row in _rows(connection, app, b, "fail", sort="worst"):
            words = _words(row.query)
            if words and words in before:
                pair = SameQuestion(row.query, replace(before[words], query=None), replace(row, query=None))
                found.setdefault(words, pair)
        # What went from right to wrong tells most.
        telling = sorted(found.values(), key=lambda pair: pair.a.label != "pass")
        return self._views.questions(request, telling[:PAIRS_SHOWN])


def _rows(connection: Connection, app: str, version: str, verdict: str, *, sort: str) -> list[TraceRow]:
    return queries.trace_rows(connection, TraceFilter(app, version, verdict=verdict, sort=sort), _LOOKED_AT)


def _words(text: str | None) -> str:
    """The same question, whatever its blanks and capitals."""
    return " ".join((text or "").casefold().split())
