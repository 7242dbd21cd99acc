"""A small world for the review tests: bilingual traffic of two versions, a bad deploy, sampled with known chances.

Everything goes through the real tables, in the shapes that the collector and the scorer write. The failures are
known by construction, so that a test can compare what the console says with what happened.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest
from sqlalchemy import Engine, Table, insert, select

from groundwatch_collector import ragtrace, storage, tables
from groundwatch_collector.ragtrace import Citation, Document, Outcome, RagTrace, Stage, Usage
from groundwatch_scorer import tables as scorer_tables
from groundwatch_scorer.criteria import detail
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    Answerability,
    Assessment,
    ClaimVerdict,
    Evidence,
    FaultFinding,
    FaultLayer,
    Verdict,
)

NOW = 1_790_000_000.0
BUCKET_SECONDS = 60
JUDGE = "local:claims-1"
APP = "manual-assistant"
RATES = {
    "normal_b0": 0.04,
    "normal_b1": 0.1,
    "normal_b2": 0.3,
    "normal_b3": 1.0,
    "refusal": 0.5,
    "feedback_neg": 1.0,
    "error_timeout": 0.2,
    "cancelled": 0.05,
}
PASSAGES = (
    (
        "upload-limits",
        "Upload limits",
        "Files up to 50 MB can be uploaded on the Team edition. "
        "The Basic edition accepts files up to 10 MB. Larger files are refused with error 413.",
    ),
    (
        "retention",
        "Retention",
        "Deleted files are kept for 30 days on the Team edition and for 7 days on the Basic edition. "
        "After that they cannot be restored.",
    ),
    (
        "sharing",
        "Sharing links",
        "A sharing link is valid for 14 days. The owner can end it earlier. Links never give write access.",
    ),
    (
        "exports",
        "Exports",
        "An export is prepared in the background. "
        "You get a mail with a link when it is ready. Exports hold at most 10,000 records.",
    ),
    (
        "sso",
        "Single sign-on",
        "Single sign-on works with SAML 2.0 and OpenID Connect. It is part of the Enterprise edition.",
    ),
    (
        "zh-upload",
        "上传限制",
        "团队版可上传不超过50 MB的文件。基础版的上限为10 MB。更大的文件会被拒绝，并返回错误413。",
    ),
    ("zh-retention", "保留期限", "团队版的已删除文件保留30天，基础版保留7天。超过期限后无法恢复。"),
    ("zh-sharing", "共享链接", "共享链接的有效期为14天，所有者可以提前终止。链接不授予写入权限。"),
)
ASKED = (
    ("how big can an attachment be on team?", 0, "Files up to 50 MB can be uploaded on the Team edition."),
    (
        "i deleted a folder 3 weeks ago, can i get it back",
        1,
        "Deleted files are kept for 30 days on the Team edition.",
    ),
    ("does a shared link ever stop working", 2, "A sharing link is valid for 14 days."),
    ("my export has been running for an hour, is that normal?", 3, "An export is prepared in the background."),
    ("can we log in with our company account", 4, "Single sign-on works with SAML 2.0 and OpenID Connect."),
    ("团队版最大能传多大的文件？", 5, "团队版可上传不超过50 MB的文件。"),
    ("上个月删掉的文件还能找回来吗？", 6, "团队版的已删除文件保留30天。"),
    ("分享出去的链接会过期吗", 7, "共享链接的有效期为14天。"),
)
INVENTED = ("It also syncs every 5 minutes to all devices.", "此外，每5分钟会自动同步一次。")


@dataclass
class World:
    """What was written, for tests to compare with."""

    engine: Engine
    now: float
    true_rate: dict[str, float] = field(default_factory=dict)  # by version, over completed requests
    sampled: list[str] = field(default_factory=list)
    not_sampled: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)  # sampled and judged to fail
    complained: list[str] = field(default_factory=list)


def trace_id_of(number: int) -> str:
    return f"{number:032x}"


@pytest.fixture(scope="session")
def _seeded(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, dict[Table, list[dict[str, Any]]]]:
    found = storage.open_engine(f"sqlite:///{tmp_path_factory.mktemp('world') / 'groundwatch.db'}")
    storage.metadata.create_all(found)
    world = seed(found)
    with found.connect() as connection:
        rows = {
            table: [dict(row._mapping) for row in connection.execute(select(table))]
            for table in storage.metadata.sorted_tables
        }
    found.dispose()
    return world, rows


@pytest.fixture
def world(engine: Engine, _seeded: tuple[World, dict[Table, list[dict[str, Any]]]]) -> World:
    """The seeded world, made once a session and copied for each test."""
    world, rows = _seeded
    with engine.begin() as connection:
        for table, found in rows.items():
            if found:
                connection.execute(insert(table), [{k: v for k, v in row.items() if k != "id"} for row in found])
    return replace(world, engine=engine)


@pytest.fixture
def add_trace(engine: Engine) -> Callable[..., str]:
    """Store one sampled trace with what a test wants to see in it."""

    def add(
        number: int = 0xABC, judged: Assessment | None = None, finding: FaultFinding | None = None, **changes: Any
    ) -> str:
        trace = make_trace(number, **changes)
        with engine.begin() as connection:
            _store(connection, trace, "normal_b0", 1.0, "sampled")
            storage.add_to_tally(connection, tables.traffic_tally, [_traffic(trace, "normal_b0")])
            if judged is not None:
                label = "fail" if finding else "pass"
                _judge(connection, trace, "normal_b0", 1.0, (label, judged, finding))
        return trace.trace_id

    return add


def make_trace(number: int, **changes: Any) -> RagTrace:
    """A plain answered trace; *changes* says what matters."""
    fields: dict[str, Any] = {
        "trace_id": trace_id_of(number),
        "app": APP,
        "version": "1.4.2",
        "started_at": NOW - 60,
        "duration_seconds": 0.8,
        "outcome": Outcome.ANSWERED,
        "outcome_source": "recorded",
        "query": "how big can an attachment be?",
        "answer": "Up to 50 MB.",
        "candidates": (),
        "context": (),
    }
    return RagTrace(**{**fields, **changes})


def seed(engine: Engine, requests: int = 2400, now: float = NOW, span: float = 6 * 3600) -> World:
    """Write *requests* requests over *span* seconds; version 1.5.0 takes over after 60 % of them and is bad."""
    world = World(engine, now)
    rng = random.Random(20_260)
    seen: dict[str, list[bool]] = {}
    with engine.begin() as connection:
        for number in range(1, requests + 1):
            trace, stratum, failed, complained = _request(rng, number, number / requests, now - span)
            if trace.outcome in ragtrace.COMPLETED:
                seen.setdefault(trace.version, []).append(failed)
            _write(connection, world, rng, trace, stratum, failed)
            if complained:
                _complain(connection, world, trace)
    world.true_rate = {version: sum(values) / len(values) for version, values in seen.items()}
    return world


def _request(rng: random.Random, number: int, share: float, start: float) -> tuple[RagTrace, str, bool, bool]:
    new = share > 0.6 or (share > 0.55 and rng.random() < 0.2)
    failed = rng.random() < (0.3 if new else 0.05)
    outcome = rng.choices(
        (
            Outcome.ANSWERED,
            Outcome.REFUSED,
            Outcome.PARTIAL,
            Outcome.NO_RESULT,
            Outcome.ERROR,
            Outcome.TIMEOUT,
            Outcome.CANCELLED,
        ),
        (88, 4, 2, 1, 2, 1, 2),
    )[0]
    complained = failed and outcome in ragtrace.COMPLETED and rng.random() < 0.12
    trace = _trace(rng, number, start + share * 6 * 3600, "1.5.0" if new else "1.4.2", outcome, failed)
    return trace, _stratum(rng, outcome, failed, complained), failed and outcome in ragtrace.COMPLETED, complained


def _stratum(rng: random.Random, outcome: Outcome, failed: bool, complained: bool) -> str:
    if outcome in ragtrace.FAILED_EXECUTION:
        return "error_timeout"
    if outcome is Outcome.CANCELLED:
        return "cancelled"
    if complained:
        return "feedback_neg"
    if outcome in (Outcome.REFUSED, Outcome.NO_RESULT):
        return "refusal"
    weights = (30, 25, 25, 20) if failed else (60, 25, 12, 3)
    return rng.choices(("normal_b0", "normal_b1", "normal_b2", "normal_b3"), weights)[0]


def _trace(rng: random.Random, number: int, at: float, version: str, outcome: Outcome, failed: bool) -> RagTrace:
    query, right, answer = ASKED[number % len(ASKED)]
    chinese = right >= 5
    names = [right, *rng.sample([i for i in range(len(PASSAGES)) if i != right], 5)]
    candidates = _documents(names)
    lost = failed and version == "1.5.0" and rng.random() < 0.75
    reranked = _documents(names[1:] if lost else names[:5], 0.98)
    invented = INVENTED[chinese]
    text = answer + (("" if chinese else " ") + invented if failed else "")
    if outcome is Outcome.REFUSED:
        text = "抱歉，我没有找到相关信息。" if chinese else "I'm sorry, I could not find that in the manual."
    took = min(9.0, rng.lognormvariate(-0.2, 0.5))
    return make_trace(
        number,
        version=version,
        started_at=at,
        duration_seconds=took,
        outcome=outcome,
        query=query,
        rewritten_query=query if chinese else query.replace("i ", "user ").rstrip("?"),
        candidates=candidates,
        reranked=reranked,
        context=reranked[:3],
        answer=text if outcome in ragtrace.COMPLETED else None,
        citations=(Citation(reranked[0].id, "[1]"),),
        error_class="TimeoutError" if outcome is Outcome.TIMEOUT else "",
        stages=_stages(at, took),
        time_to_first_token_seconds=0.35 * took,
        usage=Usage(900 + rng.randrange(300), 40 + rng.randrange(60), 0.0004),
        model="extractive-1",
        sources={"query": "input.value", "answer": "output.value"},
        span_count=6,
    )


def _documents(names: list[int], best: float = 14.2) -> tuple[Document, ...]:
    chosen = (PASSAGES[name] for name in names)
    return tuple(
        Document(id, rank, round(best / rank**0.7, 3), text, title=title)
        for rank, (id, title, text) in enumerate(chosen, 1)
    )


def _stages(at: float, took: float) -> tuple[Stage, ...]:
    shares = (
        ("rewrite", 0.0, 0.08),
        ("candidates", 0.09, 0.12),
        ("rerank", 0.22, 0.1),
        ("context", 0.33, 0.02),
        ("answer", 0.35, 0.64),
    )
    root = Stage("other", "r", "", "request", at, took, "ok")
    return (root, *(Stage(n, n, "r", n, at + s * took, w * took, "ok") for n, s, w in shares))


def _write(connection: Any, world: World, rng: random.Random, trace: RagTrace, stratum: str, failed: bool) -> None:
    storage.add_to_tally(connection, tables.traffic_tally, [_traffic(trace, stratum)])
    probability = RATES[stratum]
    if rng.random() >= probability:
        world.not_sampled.append(trace.trace_id)
        _ledger(connection, trace, stratum, probability, "not_sampled")
        return
    world.sampled.append(trace.trace_id)
    _store(connection, trace, stratum, probability, "sampled")
    if trace.outcome not in ragtrace.COMPLETED:
        _judge(connection, trace, stratum, probability, ("not_applicable", _assessment(trace, False), None))
        return
    if failed:
        world.failed.append(trace.trace_id)
    finding = _finding(rng, trace) if failed else None
    verdict = ("fail" if failed else "pass", _assessment(trace, failed), finding)
    _judge(connection, trace, stratum, probability, verdict)


def _assessment(trace: RagTrace, failed: bool) -> Assessment:
    answer = trace.answer or ""
    cut = next((answer.index(text) for text in INVENTED if text in answer), len(answer))
    first = answer[:cut].rstrip()
    source = next((d for d in trace.candidates or () if d.text and first and first.rstrip(".。") in d.text), None)
    claims = []
    if first and trace.outcome is not Outcome.REFUSED:
        quote = first.rstrip(".。")
        where = "context" if source and source.id in {d.id for d in trace.context or ()} else "candidates"
        evidence = () if source is None else (_evidence(source, quote, where),)
        claims.append(ClaimVerdict(first, 0, len(first), Verdict.SUPPORTED, 0.06, "high_overlap", evidence))
    if failed and cut < len(answer):
        claims.append(ClaimVerdict(answer[cut:], cut, len(answer), Verdict.NOT_MENTIONED, 0.91, "low_overlap"))
    return Assessment(
        identifier=JUDGE,
        annotator_kind=AnnotatorKind.CODE,
        claims=tuple(claims),
        answerability=Answerability.FULL,
        candidates_answerability=Answerability.FULL,
        answer_relevance=0.82,
        context_relevance=tuple(0.9 / (i + 1) for i in range(len(trace.context or ()))),
        candidate_relevance=tuple(0.9 / (i + 1) for i in range(len(trace.candidates or ()))),
    )


def _evidence(source: Document, quote: str, where: Any) -> Evidence:
    start = (source.text or "").index(quote)
    return Evidence(source.id, start, start + len(quote), quote, where)


def _finding(rng: random.Random, trace: RagTrace) -> FaultFinding:
    right = (trace.candidates or ())[0]
    text = right.text or ""
    if right.id not in {d.id for d in trace.context or ()}:
        evidence = (Evidence(right.id, 0, len(text), text, "candidates"),)
        why = "The passage that answers the question was retrieved at rank 1 and the reranker left it out."
        return FaultFinding(FaultLayer.RERANK, round(0.7 + 0.25 * rng.random(), 2), why, evidence)
    why = "The context holds the answer, but the text adds a claim that no passage mentions."
    return FaultFinding(FaultLayer.GENERATION, round(0.4 + 0.4 * rng.random(), 2), why)


def _traffic(trace: RagTrace, stratum: str) -> dict[str, Any]:
    return {**_key(trace, stratum), "outcome": trace.outcome, "traces": 1.0, "received": 1}


def _key(trace: RagTrace, stratum: str) -> dict[str, Any]:
    bucket = int(trace.started_at // BUCKET_SECONDS) * BUCKET_SECONDS
    return {"bucket_start": bucket, "app": trace.app, "version": trace.version, "stratum": stratum}


def _ledger(connection: Any, trace: RagTrace, stratum: str, probability: float, verdict: str) -> None:
    connection.execute(
        insert(tables.ledger).values(
            trace_id=trace.trace_id,
            app=trace.app,
            version=trace.version,
            started_at=trace.started_at,
            decided_at=trace.started_at + 20,
            epoch="e1",
            stratum=stratum,
            outcome=trace.outcome,
            inclusion_probability=probability,
            u56=zlib.crc32(trace.trace_id.encode()),
            salt_version=1,
            verdict=verdict,
            reason="hash",
            first_position=0,
            last_position=0,
            duration_seconds=trace.duration_seconds,
        )
    )


def _store(connection: Any, trace: RagTrace, stratum: str, probability: float, verdict: str) -> None:
    _ledger(connection, trace, stratum, probability, verdict)
    connection.execute(
        insert(tables.sampled_traces).values(
            trace_id=trace.trace_id,
            family="fast",
            payload=ragtrace.to_json(trace),
            app=trace.app,
            version=trace.version,
            started_at=trace.started_at,
            stratum=stratum,
            inclusion_probability=probability,
            reason="hash",
            epoch="e1",
            state="waiting",
            queued_at=trace.started_at + 20,
        )
    )


def _judge(
    connection: Any,
    trace: RagTrace,
    stratum: str,
    probability: float,
    verdict: tuple[str, Assessment, FaultFinding | None],
) -> None:
    label, assessment, finding = verdict
    weight = 1.0 / probability
    judged, failed = int(label in ("pass", "fail")), int(label == "fail")
    row = {
        **_key(trace, stratum),
        "criterion": "any_failure",
        "judge": JUDGE,
        "weight": weight * judged,
        "fail_weight": weight * failed,
        "weight_sq": weight * weight * judged,
        "judged": judged,
        "failed": failed,
        "not_applicable_weight": weight * (label == "not_applicable"),
        "missing_weight": weight * (label == "unscored"),
    }
    storage.add_to_tally(connection, scorer_tables.verdict_tally, [row])
    if finding is not None:
        fault = {**_key(trace, stratum), "layer": finding.layer, "judge": JUDGE, "weight": weight, "judged": 1}
        storage.add_to_tally(connection, scorer_tables.fault_tally, [fault])
    reasons = ["a claim is not in the sources"] if failed else []
    connection.execute(
        insert(scorer_tables.judgements).values(
            trace_id=trace.trace_id,
            criterion="any_failure",
            label=label,
            score=None,
            explanation="One claim of the answer is in no passage." if failed else "",
            annotator_kind="CODE",
            identifier=JUDGE,
            judged_at=trace.started_at + 25,
            detail=orjson.dumps(detail(assessment, finding, reasons)).decode(),
        )
    )
    table = tables.sampled_traces
    connection.execute(table.update().where(table.c.trace_id == trace.trace_id).values(state="judged"))


def _complain(connection: Any, world: World, trace: RagTrace) -> None:
    world.complained.append(trace.trace_id)
    connection.execute(
        insert(tables.feedback).values(
            feedback_id=f"f{trace.trace_id[-8:]}",
            trace_id=trace.trace_id,
            name="thumbs",
            sentiment="negative",
            score=0.0,
            label="down",
            comment="那不是我问的。" if "？" in (trace.query or "") else "that is not what I asked",
            received_at=trace.started_at + 40,
            position=0,
        )
    )
