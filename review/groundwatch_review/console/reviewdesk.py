"""Routes of the review desk: the queue, one item at a time, and what is done with a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from sqlalchemy import Connection, Engine
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from groundwatch_alerts import agreement_rows
from groundwatch_alerts.agreement_metrics import WINDOW_SECONDS
from groundwatch_alerts.judge_agreement import MIN_LABELS, agreement
from groundwatch_scorer.criteria import read_detail
from groundwatch_scorer.judgement import ClaimVerdict, FaultLayer

from .. import candidates as store
from .. import desk, label_agreement, labelling_policy, labels, queries, readings, review_queue
from ..candidates import CandidatePolicy
from ..queries import JudgementRow, TraceRecord
from ..rereading import Rereading
from ..review_queue import QueueItem, Reader, Wanted
from . import addresses
from .config import ConsoleConfig
from .guard import read_form
from .rawviews import RawViews
from .rendering import YEAR_SECONDS, Page, carried, href, set_cookie
from .tracepage import trace_page

REVIEWER_COOKIE = "groundwatch_reviewer"
BLIND_FOR = frozenset({"drawn", "reread"})
_READINGS = ("first", "second", "repeat", "again", "settled")


class ReviewDesk:
    def __init__(
        self,
        engine: Engine,
        config: ConsoleConfig,
        now: Callable[[], float],
        *,
        candidate_key: bytes,
        candidate_policy: CandidatePolicy | None,
        rereading: Rereading,
        page: Page,
        reviewer: Callable[[Request], str],
        views: RawViews,
    ) -> None:
        self._engine = engine
        self._config = config
        self._now = now
        self._key = candidate_key
        self._policy = candidate_policy
        self._rereading = rereading
        self._page = page
        self._reviewer = reviewer
        self._views = views

    def routes(self) -> list[Route]:
        return [
            Route("/review", self.review),
            Route("/labels", self.labels),
            Route("/traces/{trace_id}/decision", self.decide, methods=["POST"]),
        ]

    def reader_of(self, request: Request) -> Reader:
        """For whom the queue is."""
        return Reader(self._reviewer(request), self._now() - self._rereading.repeat_after_seconds)

    def waiting(self, connection: Connection, app: str, request: Request) -> int:
        """The figure in the navigation."""
        return review_queue.size(connection, app, self.reader_of(request)) if app else 0

    def is_blind(self, item: QueueItem) -> bool:
        """Whether no verdict is shown: labels that measure a judge or a person must not know what those said."""
        if "disputed" in item.why:
            return False
        return bool(BLIND_FOR.intersection(item.why)) or self._rereading.is_drawn(item.trace_id)

    def should_be_blind(self, connection: Connection, record: TraceRecord) -> bool:
        """Whether the queue would show this trace blind for its first reading."""
        trace_id = record.row.trace_id
        drawn = review_queue.is_drawn(connection, trace_id) or self._rereading.is_drawn(trace_id)
        return drawn and record.review is None

    def waits(self, connection: Connection, record: TraceRecord, request: Request) -> bool:
        """Whether the queue of whoever asks holds this trace."""
        reader = self.reader_of(request)
        return review_queue.find(connection, record.app, record.row.trace_id, reader) is not None

    # The queue

    def review(self, request: Request) -> Response:
        who = self.reader_of(request)
        with queries.snapshot(self._engine) as connection:
            apps = [seen.app for seen in queries.apps(connection)]
            if not apps:
                return self._page(request, "empty.html", {"collector_url": self._config.collector_url})
            asked = request.query_params
            app = asked.get("app", "") if asked.get("app", "") in apps else apps[0]
            wanted = _wanted(asked)
            found = review_queue.read(connection, app, self._config.queue_limit, who, wanted)
            chosen = asked.get("item", "")
            if chosen and all(item.trace_id != chosen for item in found):
                found = [*self._asked_for(connection, app, chosen, who), *found]
            queue = [item for item in found if not (wanted.tells_the_verdict and self.is_blind(item))]
            place = _place(queue, chosen)
            record = queries.trace(connection, queue[place].trace_id) if queue else None
            context: dict[str, Any] = {
                "apps": apps,
                "app": app,
                "versions": [version for version, _first in queries.versions(connection, app)],
                "layers": tuple(FaultLayer),
                "reasons": review_queue.REASONS,
                "wanted": wanted,
                "queue": [_shown(item) if self.is_blind(item) else item for item in queue],
                "kept_blind": len(found) - len(queue),
                "place": place,
                "missed": bool(chosen) and all(item.trace_id != chosen for item in queue),
                "keep": _kept(asked, app),
                "needs_review": review_queue.size(connection, app, who),
                "notice": notice(request),
            }
            if record is not None:
                context["said"] = readings.of_trace(connection, record.row.trace_id)
        if record is None or record.trace is None:
            return self._page(request, "review_empty.html", context)
        self._views.record(request, record, raw=True)
        near = slice(max(0, place - 3), place + 9)  # what the page lists of the queue
        context["queue"][near] = self._views.questions(request, context["queue"][near])
        blind = self.is_blind(queue[place])
        form = label_form(record, blind=blind)
        page = trace_page(record, record.trace, blind=blind)
        here = {"record": record, "t": page, "item": context["queue"][place], "blind": blind, "form": form}
        return self._page(request, "review.html", {**context, **here, "back": "review"})

    def _asked_for(self, connection: Connection, app: str, trace_id: str, who: Reader) -> list[QueueItem]:
        """The one item of this trace where it stands behind all that are listed; none where it waits for nobody."""
        if not addresses.TRACE_ID.fullmatch(trace_id):
            return []
        found = review_queue.find(connection, app, trace_id, who)
        return [] if found is None else [found]

    # Agreement and the policy

    def labels(self, request: Request) -> Response:
        """Whether labels can be relied on: people with each other, each with themselves, judges with people."""
        now = self._now()
        with queries.snapshot(self._engine) as connection:
            measured = label_agreement.measure(readings.blind(connection))
        pairs = agreement_rows.read(self._engine, since=now - WINDOW_SECONDS)
        context = {
            "m": measured,
            "judges": {judge: (len(found), agreement(found)) for judge, found in sorted(pairs.items())},
            "enough": label_agreement.MIN_PAIRS,
            "enough_of_judges": MIN_LABELS,
            "shares": self._rereading.shares,
            "policy": labelling_policy,
        }
        return self._page(request, "labels.html", context)

    # A decision

    async def decide(self, request: Request) -> Response:
        """Confirm or reject one failure; a confirmed one becomes a redacted candidate that waits for a person."""
        trace_id = addresses.trace_id(request)
        form = await read_form(request)
        reviewer = self._reviewer(request)
        target = await run_in_threadpool(self._decide, trace_id, form, reviewer)
        response = RedirectResponse(target, 303)
        set_cookie(response, request, REVIEWER_COOKIE, reviewer, YEAR_SECONDS)
        return response

    def _decide(self, trace_id: str, form: Mapping[str, str], reviewer: str) -> str:
        blind = form.get("blind") == "yes"
        label = labels.from_form(form, *self._what_was_shown(trace_id, form))
        now = self._now()
        decided = desk.decide(self._engine, trace_id, label, reviewer, now, rereading=self._rereading, blind=blind)
        candidate_id = ""
        if self._key and decided.rules and label.decision == "confirmed":
            candidate_id = store.create(self._engine, trace_id, self._key, now, policy=self._policy)
        store.note_readers(self._engine, trace_id, now)
        return self._back(trace_id, form, decided, candidate_id)

    def _what_was_shown(self, trace_id: str, form: Mapping[str, str]) -> tuple[Any, tuple[ClaimVerdict, ...]]:
        """The trace and the claims that the form's numbers mean, which may be of an older verdict than the newest."""
        with queries.snapshot(self._engine) as connection:
            record = queries.trace(connection, trace_id)
        if record is None or not record.row.sampled:
            return None, ()  # refused by the desk, with its reason
        if record.trace is None:
            raise desk.Refused("the days for which text is kept are over, so there is nothing to read and decide")
        number = form.get("claims_of", "")
        found = next((j for j in record.judgements if str(j.id) == number), None)
        return record.trace, claims_of(found)

    def _back(self, trace_id: str, form: Mapping[str, str], decided: desk.Decided, candidate_id: str) -> str:
        agrees = "" if decided.agrees is None else "yes" if decided.agrees else "no"
        done = {
            "done": form.get("decision", ""),
            "reading": "" if decided.reading == "first" else decided.reading,
            "agrees": agrees,
        }
        filters = carried(dict(parse_qsl(form.get("keep", ""))))
        if form.get("back") == "review":
            return href(
                "/review", **filters, item=form.get("next", ""), candidate=candidate_id, trace=trace_id, **done
            )
        if candidate_id:
            return href(f"/candidates/{candidate_id}", **filters)
        return href(f"/traces/{trace_id}", **filters, **done)


def claims_of(judgement: JudgementRow | None) -> tuple[ClaimVerdict, ...]:
    """The claims of a judge's verdict; none of one of an odd shape."""
    if judgement is None:
        return ()
    try:
        return read_detail(judgement.detail).assessment.claims
    except (ValueError, KeyError, TypeError):
        return ()


def label_form(record: TraceRecord, *, blind: bool = False) -> dict[str, Any]:
    """What the form shows: the rules, the claims by number, and what the current review holds already."""
    headline = record.headline
    rows = [
        {"annotator_kind": j.annotator_kind, "criterion": j.criterion, "identifier": j.identifier}
        | {"judged_at": j.judged_at, "detail": j.detail}
        for j in reversed(record.judgements)
    ]
    review = None if record.review is None or blind else record.review
    held = None
    if review is not None:
        words = {"decision": review.decision, "reviewer": review.reviewer, "reviewed_at": review.reviewed_at}
        held = labels.of_review(rows, {**words, "fault_layer": review.fault_layer, "note": review.note})
    held = held or labels.Label("confirmed")
    return {
        "policy": labelling_policy,
        "claims_of": "" if headline is None else headline.id,
        "claims": {number: held_verdict(held, claim) for number, claim in enumerate(claims_of(headline), 1)},
        "expected": held.expectation,
        "criteria": {} if review is None else _criteria(record, review.reviewer, review.reviewed_at),
        "evidence": _evidence(record, held),
    }


def _evidence(record: TraceRecord, held: labels.Label) -> list[dict[str, Any]]:
    named = {} if record.trace is None else labels.places(record.trace)
    return [
        {"document": named.get(e.document_id, ""), "start": e.start, "end": e.end, "quote": e.quote}
        for e in held.expectation.evidence
    ]


def held_verdict(held: labels.Label, claim: ClaimVerdict) -> str:
    """What the person said of *claim*, or ""."""
    return next(
        (said.verdict.value for said in held.claims if (said.start, said.end) == (claim.start, claim.end)), ""
    )


def _criteria(record: TraceRecord, reviewer: str, at: float) -> dict[str, str]:
    mine = (f"reviewer:{reviewer}", at)
    return {j.criterion: j.label for j in record.judgements if (j.identifier, j.judged_at) == mine}


def _wanted(asked: Mapping[str, str]) -> Wanted:
    layer, why = asked.get("layer", ""), asked.get("why", "")
    return Wanted(
        version=asked.get("version", ""),
        layer=layer if layer in tuple(FaultLayer) else "",
        why=why if why in review_queue.REASONS else "",
    )


def _kept(asked: Mapping[str, str], app: str) -> dict[str, str]:
    return {"app": app} | {name: value for name, value in carried(asked).items() if name != "app"}


def _shown(item: QueueItem) -> QueueItem:
    """What a blind reader may know of it."""
    reasons = tuple(reason for reason in item.why if reason in BLIND_FOR)
    return replace(
        item, why=("reread" in reasons and ("drawn",)) or reasons or ("drawn",), layer="", confidence=None, family=1
    )


def _place(queue: list[QueueItem], trace_id: str) -> int:
    return next((place for place, item in enumerate(queue) if item.trace_id == trace_id), 0)


def notice(request: Request) -> dict[str, str]:
    """What was just done, from the address: closed words and checked identifiers only."""
    asked = request.query_params
    done, candidate_id, trace_id = (asked.get(name, "") for name in ("done", "candidate", "trace"))
    known = done in ("confirm", "reject")
    reading, agrees = asked.get("reading", ""), asked.get("agrees", "")
    return {
        "done": done if known else "",
        "candidate": candidate_id if known and addresses.CANDIDATE_ID.fullmatch(candidate_id) else "",
        "trace": trace_id if known and addresses.TRACE_ID.fullmatch(trace_id) else "",
        "reading": reading if known and reading in _READINGS else "",
        "agrees": agrees if known and agrees in ("yes", "no") else "",
    }
