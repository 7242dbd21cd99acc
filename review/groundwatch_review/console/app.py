"""Routes of the console. Handlers read one snapshot, lay it out, and render; decisions go through the desk."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson
from prometheus_client import CollectorRegistry
from sqlalchemy import Connection, Engine
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from groundwatch_alerts.objectives import AlertsConfig, Objective

from .. import candidates as store
from .. import desk, queries, readings, second_person
from ..audit import AuditLog
from ..candidates import CandidatePolicy
from ..export import export_jsonl
from ..passwords import COST, Cost
from ..queries import CandidateRow
from ..rereading import Rereading, RereadingConfig
from . import addresses, charts, overview
from .access import Access, Permission, Principal, principal_of
from .administration import Administration
from .candidatepage import candidate_page
from .config import ConsoleConfig
from .formats import iso
from .guard import FORM_LIMIT_BYTES, Forbidden, Guard, cookie, read_form
from .login import Login, LoginMetrics
from .login_limits import LoginLimits
from .oidc_config import OidcConfig
from .overview import Asked, Overview
from .promises import Promised
from .rawviews import RawViews
from .rendering import HERE, YEAR_SECONDS, carried, environment, href, respond, set_cookie
from .reviewdesk import REVIEWER_COOKIE, ReviewDesk, label_form, notice
from .sessions import Lifetime, Sessions
from .sidebyside import SideBySide
from .single_sign_on import SingleSignOn
from .tracelist import TraceList, closed_sets
from .tracepage import trace_page


def console_app(
    engine: Engine,
    config: ConsoleConfig,
    *,
    now: Callable[[], float],
    candidate_key: bytes = b"",
    candidate_policy: CandidatePolicy | None = None,
    objectives: Sequence[Objective] = (),
    alerts: AlertsConfig | None = None,
    audit_key: bytes = b"",
    registry: CollectorRegistry | None = None,
    login_always: bool = False,
    password_cost: Cost = COST,
    labelling: RereadingConfig | None = None,
    oidc: OidcConfig | None = None,
    oidc_secret: str = "",
) -> ASGIApp:
    """The console over *engine*. *candidate_key* signs candidates; without it confirming makes none.

    *candidate_policy* says what rights there are in the traffic; without it candidates are made, and none leaves.
    *audit_key* is what the audit trail is chained with. *login_always*: also while there is no user, because others
    than this machine reach the console; single sign-on (*oidc*) asks for one too.
    """
    audit = AuditLog(engine, audit_key, now)
    rereading = Rereading(candidate_key, labelling or RereadingConfig())
    console = Console(engine, config, now, candidate_key, candidate_policy, rereading=rereading, audit=audit)
    sides = SideBySide(engine, console.page, console.views)
    promised = Promised(engine, now, objectives, alerts or AlertsConfig(), page=console.page, sides=sides)
    oidc = oidc or OidcConfig()
    sessions = Sessions(engine, now, Lifetime(config.session_idle_seconds, config.session_longest_seconds))
    metrics = LoginMetrics(registry)
    login = Login(
        engine,
        audit=audit,
        sessions=sessions,
        limits=LoginLimits(now),
        metrics=metrics,
        page=console.page,
        now=now,
        cost=password_cost,
        always=login_always,
        sso=oidc.name if oidc.issuer else "",
    )
    provider = None
    if oidc.issuer:
        from .oidc_provider import Provider  # noqa: PLC0415  (needs the extra)

        provider = Provider(oidc, oidc_secret, now)
    sso = SingleSignOn(
        engine,
        oidc,
        provider,
        key=audit_key,
        audit=audit,
        sessions=sessions,
        metrics=metrics,
        page=console.page,
        now=now,
    )
    people = Administration(engine, audit, audit_key, console.page, now=now, cost=password_cost)
    routes = [
        *console.routes(),
        *console.list.routes(),
        *console.desk.routes(),
        *promised.routes(),
        *sides.routes(),
        *login.routes(),
        *sso.routes(),
        *people.routes(),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: console.http_error,
            Forbidden: console.forbidden,
            desk.Refused: console.refused,
            Exception: console.failed,
        },
        max_body_size=FORM_LIMIT_BYTES,
    )
    checked = Access(
        app, routes, who=login.who, audit=audit, login_needed=login.login_needed, not_allowed=console.not_allowed
    )
    return Guard(checked, config.allowed_hosts, tls_in_front=config.tls_in_front)


class Console:
    def __init__(
        self,
        engine: Engine,
        config: ConsoleConfig,
        now: Callable[[], float],
        candidate_key: bytes,
        candidate_policy: CandidatePolicy | None,
        *,
        rereading: Rereading,
        audit: AuditLog,
    ) -> None:
        self._engine = engine
        self._config = config
        self._now = now
        self._key = candidate_key
        self._policy = candidate_policy
        self._templates = environment()
        self.views = RawViews(audit)
        self.desk = ReviewDesk(
            engine,
            config,
            now,
            candidate_key=candidate_key,
            candidate_policy=candidate_policy,
            rereading=rereading,
            page=self.page,
            reviewer=self.reviewer,
            views=self.views,
        )
        self.list = TraceList(
            engine, config, now, audit=audit, views=self.views, page=self.page, waiting=self.desk.waiting
        )

    def routes(self) -> list[Route | Mount]:
        return [
            Route("/", self.overview),
            Route("/api/overview", self.overview_json),
            Route("/traces/{trace_id}", self.trace),
            Route("/traces/{trace_id}/raw", self.raw_trace),
            Route("/candidates", self.candidates),
            Route("/candidates/export", self.export, methods=["POST"]),
            Route("/candidates/{candidate_id}", self.candidate),
            Route("/candidates/{candidate_id}/decision", self.decide_candidate, methods=["POST"]),
            Route("/healthz", self.health),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ]

    def page(self, request: Request, name: str, context: Mapping[str, Any], status: int = 200) -> Response:
        who = principal_of(request)
        shared: dict[str, Any] = {
            "now": self._now(),
            "here": request.url.path,
            "app": request.query_params.get("app", ""),
            "window": request.query_params.get("window", ""),
            "needs_review": None,
            "carried": carried(request.query_params),
            "refresh": 0,
            "who": who,
        }
        if who.may(Permission.DECIDE) and "needs_review" not in context and status == 200:
            shared["needs_review"] = self._waiting(request, context)
        return respond(self._templates, request, name, {**shared, **context}, status)

    def _waiting(self, request: Request, context: Mapping[str, Any]) -> int:
        """The figure in the navigation, of a page that does not count itself."""
        with queries.snapshot(self._engine) as connection:
            apps = [seen.app for seen in queries.apps(connection)]
            asked = str(context.get("app") or request.query_params.get("app", ""))
            return self.desk.waiting(connection, asked if asked in apps else next(iter(apps), ""), request)

    # Overview

    def overview(self, request: Request) -> Response:
        asked = _asked(request)
        with queries.snapshot(self._engine) as connection:
            chosen = overview.choose(connection, asked, self._config)
            if chosen is None:
                context = {"collector_url": self._config.collector_url, "refresh": self._config.refresh_seconds}
                return self.page(request, "empty.html", context)
            shown = self._figures(connection, chosen[0], request)
        context = {
            "o": shown,
            "choices": chosen[1],
            "chart_wide": charts.rate_chart(shown, 860, 270),
            "chart_narrow": charts.rate_chart(shown, 400, 240),
            "app": shown.app,
            "window": shown.window,
            "needs_review": shown.needs_review,
            "refresh": self._config.refresh_seconds,
        }
        return self.page(request, "overview.html", context)

    def _figures(self, connection: Connection, asked: Asked, request: Request) -> Overview:
        return overview.read(connection, asked, self._config, self._now(), self.desk.reader_of(request))

    def overview_json(self, request: Request) -> Response:
        with queries.snapshot(self._engine) as connection:
            chosen = overview.choose(connection, _asked(request), self._config)
            shown = None if chosen is None else self._figures(connection, chosen[0], request)
        body: dict[str, Any] = {"app": None} if shown is None else asdict(shown)
        return Response(orjson.dumps(body), media_type="application/json")

    # Traces

    def trace(self, request: Request) -> Response:
        """One trace, redacted; where nobody logs in, as it is."""
        return self._trace(request, raw=principal_of(request).everybody)

    def raw_trace(self, request: Request) -> Response:
        """One trace as its user wrote it."""
        return self._trace(request, raw=True)

    def _trace(self, request: Request, *, raw: bool) -> Response:
        trace_id = addresses.trace_id(request)
        with queries.snapshot(self._engine) as connection:
            record = queries.trace(connection, trace_id)
            if record is None:
                raise HTTPException(404, "No trace with this identifier is in the ledger.")
            needs_review = self.desk.waiting(connection, record.app, request)
            said = readings.of_trace(connection, trace_id)
            drawn = self.desk.should_be_blind(connection, record)
            calls = queries.judge_calls_of(connection, trace_id) if raw else []  # they hold all texts once more
            waits = drawn and self.desk.waits(connection, record, request)
        record = self.views.record(request, record, raw=raw)
        shared = {"record": record, "app": record.app, "needs_review": needs_review, "raw": raw, **closed_sets()}
        if record.trace is None:
            return self.page(request, "trace_counted.html", shared)
        context = {
            **shared,
            "t": trace_page(record, record.trace),
            "back": "trace",
            "notice": notice(request),
            "form": label_form(record),
            "drawn": drawn,
            "waits": waits,
            "calls": calls,
            "blind": False,
            "said": said if raw else [replace(reading, note="") for reading in said],
            "deciding": raw
            and principal_of(request).may(Permission.DECIDE),  # offsets in redacted texts mean nothing
        }
        return self.page(request, "trace.html", context)

    # Who reviews

    def reviewer(self, request: Request) -> str:
        if not principal_of(request).everybody:
            return principal_of(request).actor
        held = cookie(request, REVIEWER_COOKIE)
        return held if desk.is_reviewer(held) else desk.new_reviewer()

    # Candidates

    def candidates(self, request: Request) -> Response:
        with queries.snapshot(self._engine) as connection:
            rows = queries.candidate_rows(connection, 500)
            ticks = second_person.ticks(connection)
        shown = [row for row in rows if not _closed_to(principal_of(request), row)]
        context = {
            "rows": [candidate_page(row, ticks) for row in shown],
            "hidden": len(rows) - len(shown),
            "ready": bool(self._key),
            "notice": notice(request),
        }
        return self.page(request, "candidates.html", context)

    def candidate(self, request: Request) -> Response:
        candidate_id = addresses.candidate_id(request)
        with queries.snapshot(self._engine) as connection:
            row = queries.candidate(connection, candidate_id)
            ticks = second_person.ticks(connection, candidate_id)
        if row is None:
            raise HTTPException(404, "No candidate with this identifier is here.")
        if closed := _closed_to(principal_of(request), row):
            return self.not_allowed(request, closed)
        shown = {"c": candidate_page(row, ticks), "me": self.reviewer(request)}
        return self.page(request, "candidate.html", shown)

    async def decide_candidate(self, request: Request) -> Response:
        candidate_id = addresses.candidate_id(request)
        form = await read_form(request)
        reviewer = self.reviewer(request)
        await run_in_threadpool(self._decide_candidate, candidate_id, form, reviewer)
        response = RedirectResponse(href(f"/candidates/{candidate_id}", **carried(request.query_params)), 303)
        set_cookie(response, request, REVIEWER_COOKIE, reviewer, YEAR_SECONDS)
        return response

    def _decide_candidate(self, candidate_id: str, form: Mapping[str, str], reviewer: str) -> None:
        with queries.snapshot(self._engine) as connection:
            if queries.candidate(connection, candidate_id) is None:
                raise HTTPException(404, "No candidate with this identifier is here.")
        decision = form.get("decision", "")
        if decision == "confirm" and form.get("read") != "yes":
            raise desk.Refused("tick that you have read the redacted text; nothing leaves without that tick")
        if decision == "confirm":
            revision = _read_revision(form)
            store.confirm(self._engine, candidate_id, reviewer, self._now(), policy=self._policy, revision=revision)
        elif decision == "reject":
            store.reject(self._engine, candidate_id, reviewer, self._now())
        else:
            raise desk.Refused(f"decision {decision[:40]!r} is not known; accepted: confirm, reject")

    async def export(self, request: Request) -> Response:
        await read_form(request)
        return await run_in_threadpool(self._export, request)

    def _export(self, request: Request) -> Response:
        now = self._now()
        with tempfile.TemporaryDirectory(prefix="groundwatch-export-") as folder:
            path = Path(folder) / "candidates.jsonl"
            report = export_jsonl(self._engine, path, now, policy=self._policy)
            body = path.read_bytes() if path.exists() else b""
        if not report.written:
            return self.page(request, "export_empty.html", {"held": dict(report.held)}, 200)
        name = f"groundwatch-candidates-{iso(now).replace(':', '')}.jsonl"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(body, media_type="application/x-ndjson", headers=headers)

    # Health and errors

    def not_allowed(self, request: Request, why: str) -> Response:
        return self.forbidden(request, Forbidden(why))

    def health(self, request: Request) -> Response:
        with queries.snapshot(self._engine) as connection:
            queries.apps(connection)
        return PlainTextResponse("ok\n")

    def http_error(self, request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        message = error.detail if isinstance(error, HTTPException) else ""
        return self.page(request, "error.html", {"status": status, "message": message}, status)

    def forbidden(self, request: Request, error: Exception) -> Response:
        message = f"Nothing was changed: {error}."
        return self.page(request, "error.html", {"status": 403, "message": message}, 403)

    def refused(self, request: Request, error: Exception) -> Response:
        message = f"Nothing was changed: {error}."
        return self.page(request, "error.html", {"status": 400, "message": message}, 400)

    def failed(self, request: Request, error: Exception) -> Response:
        message = "The console failed on this page; the error is in the log of the process."
        return self.page(request, "error.html", {"status": 500, "message": message}, 500)


def _closed_to(who: Principal, row: CandidateRow) -> str:
    """Why this candidate is not for *who*; "" when it is."""
    if row.document.get("split") != "DEV" and not who.may(Permission.READ_HOLDOUT):
        return "this candidate is of the hold-out set, which needs the permission 'read_holdout'"
    if row.redaction_status == "BLOCKED" and not who.may(Permission.READ_RAW):
        return "its redaction is in doubt, so it needs the permission 'read_raw'"
    return ""


def _read_revision(form: Mapping[str, str]) -> int:
    """The revision of the candidate that stood on the page; 0, which no candidate has, where a form has none."""
    text = form.get("revision", "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0


def _asked(request: Request) -> overview.Asked:
    names = overview.Asked.__dataclass_fields__
    return replace(overview.Asked(), **{k: v for k, v in request.query_params.items() if k in names})
