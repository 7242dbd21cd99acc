"""The document of a candidate: built from a confirmed failure, redacted, and checked to fail as before.

The document holds no trace id, no time of day and no value that redaction found.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from groundwatch_collector.ragtrace import Document, RagTrace
from groundwatch_review import desk, families, labels, readings
from groundwatch_review.labels import Expectation, Label
from groundwatch_review.redaction import RedactionLimits, RedactionResult, redact_candidate
from groundwatch_review.redaction.rules import Detector
from groundwatch_review.schema import problems
from groundwatch_scorer.criteria import Reading, read_detail
from groundwatch_scorer.failures import reasons as failure_reasons
from groundwatch_scorer.judgement import AnnotatorKind, Answerability, Criterion, FaultLayer, Refusal, Verdict
from groundwatch_scorer.local_judge import LocalJudge

CONSENTS: Final = ("EXPLICIT", "CONTRACT", "LEGITIMATE_INTEREST", "NOT_PERSONAL")
_MAX_TEXT: Final = 20_000  # characters, from the schema
_MAX_PASSAGES: Final = 50  # from the schema
_MAX_FORBIDDEN: Final = 40

LAYERS: Final[Mapping[str, str]] = {
    FaultLayer.RETRIEVAL: "RETRIEVAL",
    FaultLayer.RERANK: "RERANK",
    FaultLayer.CONTEXT: "CONTEXT",
    FaultLayer.GENERATION: "GENERATION",
    # The generator declined although it had the evidence. SAFETY would claim a policy decision that nobody recorded.
    FaultLayer.REFUSAL: "GENERATION",
    FaultLayer.REWRITE: "QUERY",
    FaultLayer.EXECUTION: "APPLICATION",
}
"""Our fault layers in the words of the candidate format; anything else is UNKNOWN."""

_BEHAVIOUR: Final = {"FULL": "ANSWER", "PARTIAL": "PARTIAL_WITH_CAVEAT", "NONE": "ABSTAIN"}

ReproVerdict = Callable[[RagTrace], str]


@dataclass(frozen=True, slots=True)
class CandidatePolicy:
    """What this deployment may say about the rights in its traffic. The defaults keep every candidate here."""

    consent: str = "UNKNOWN"  # EXPLICIT | CONTRACT | LEGITIMATE_INTEREST | NOT_PERSONAL; UNKNOWN: nothing is exported
    license: str = "UNKNOWN"  # licence of questions and documents, as it shall stand in the export
    residency: str = ""  # where the data has to stay, e.g. "EU"
    expires_after_days: int = 180  # an expired candidate is not exported

    def __post_init__(self) -> None:
        if self.consent not in (*CONSENTS, "UNKNOWN"):
            raise ValueError(f"consent {self.consent[:40]!r} is not known; accepted: {', '.join(CONSENTS)}, UNKNOWN")


def local_verdict(trace: RagTrace) -> str:
    """The deterministic local judge's headline verdict: ``pass``, ``fail`` or ``unscored``."""
    assessment = LocalJudge().assess(trace)
    if assessment.unscored_reason:
        return "unscored"
    return "fail" if failure_reasons(trace, assessment) else "pass"


def build(  # noqa: PLR0917 (rows of four tables, a key and a clock)
    trace: RagTrace,
    judgements: Sequence[Mapping[str, Any]],
    review: Mapping[str, Any],
    feedback: Sequence[Mapping[str, Any]],
    key: bytes,
    now: float,
    *,
    policy: CandidatePolicy | None = None,
    verdict: ReproVerdict | None = local_verdict,
    detectors: Sequence[Detector] | None = None,
    limits: RedactionLimits | None = None,
    others: Iterable[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the redacted candidate of a confirmed failure, in the family of those of *others* that it resembles.

    *judgements*, *review* and *feedback* are rows of their tables. Trouble of any kind makes the candidate BLOCKED
    and stands in ``redaction.residual.flags``; it is no exception, because a person has to see it.
    """
    policy = policy or CandidatePolicy()
    passages = _passages(trace)
    raw = _raw_document(trace, passages, _judged(judgements, review), review, feedback, key, now, policy)
    raw["review"] = _review(judgements, review)
    result = redact_candidate(raw, _known_values(trace, feedback), detectors=detectors, limits=limits)
    document = result.document
    document["redaction"]["repro"] = _reproduction(trace, passages, result, verdict)
    _fit(document)
    families.assign(document, others)
    _block(document, _doubts(trace, document))
    return document


def _raw_document(  # noqa: PLR0917 (a straight list of what the format holds)
    trace: RagTrace,
    passages: Sequence[Document],
    judged: _Judged,
    review: Mapping[str, Any],
    feedback: Sequence[Mapping[str, Any]],
    key: bytes,
    now: float,
    policy: CandidatePolicy,
) -> dict[str, Any]:
    complained = any(row["sentiment"] == "negative" for row in feedback)
    return {
        "schema_version": 1,
        "candidate_id": candidate_id(key, trace.trace_id),
        "revision": 1,
        "lang": language(trace.query or ""),
        "question": _question(trace),
        "evidence": _evidence(passages, judged, key),
        "answer": _answer(trace, passages, judged.reading),
        "expectation": _expectation(judged),
        "fault": _fault(judged, review),
        "family": {
            "family_id": "fam_" + "0" * 24,
            "method": families.METHOD,
            "near_duplicate_of": None,
            "support": 1,
        },
        "split": "UNASSIGNED",
        "provenance": {
            "trace_hmac": _keyed(key, "trace", trace.trace_id),
            "subject_hmac": _keyed(key, "subject", trace.user_hash) if trace.user_hash else None,
            "key_id": "k_" + _keyed(key, "key", "id")[:8],
            "source": "FEEDBACK" if complained else "SAMPLE",
            "observed_week": _week(trace.started_at),
        },
        "governance": _governance(policy, now),
    }


def _review(judgements: Sequence[Mapping[str, Any]], review: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "status": "PENDING",
        "failure_confirmed": review["decision"] == "confirmed",
        "redaction_confirmed": False,
        **readers(judgements, review),
    }


def readers(judgements: Sequence[Mapping[str, Any]], review: Mapping[str, Any]) -> dict[str, Any]:
    """Who read the trace, under which policy, and which share agrees with the *review*; none where one person did."""
    said = list(readings.from_rows(judgements))
    known = [reading.reviewer for reading in said if desk.is_reviewer(reading.reviewer)]
    share = readings.share_agreeing(said, review["decision"])
    found: dict[str, Any] = {"reviewers": list(dict.fromkeys([*known, review["reviewer"]]))}
    if labelled_under := labels.policy_of_review(judgements, review):
        found["labelling_policy"] = labelled_under
    return found if share is None else {**found, "agreement": share}


def _governance(policy: CandidatePolicy, now: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "license": policy.license,
        "consent": policy.consent,
        "export_allowed": False,
        "expires_at": stamp(now + timedelta(days=policy.expires_after_days).total_seconds()),
        "tombstoned": False,
    }
    return {**found, "residency": policy.residency} if policy.residency else found


def _question(trace: RagTrace) -> dict[str, Any]:
    text = trace.query or ""
    rewritten = trace.rewritten_query
    return {"text": text, **({"rewritten": rewritten} if rewritten and rewritten != text else {})}


def _passages(trace: RagTrace) -> list[Document]:
    """Context first, in the order in which the model saw it; then reranked and candidates that did not get there."""
    seen: dict[tuple[str, str | None], Document] = {}
    for document in (*(trace.context or ()), *(trace.reranked or ()), *(trace.candidates or ())):
        seen.setdefault((document.id, document.text), document)
    return list(seen.values())[:_MAX_PASSAGES]


def _evidence(passages: Sequence[Document], judged: _Judged, key: bytes) -> dict[str, Any]:
    retrieved = [
        {
            "ref": f"p{number}",
            "rank": number,
            "score": document.score,
            "text": document.text or "",
            "doc_hmac": _keyed(key, "document", document.id)[:32],
            **({"doc_label": document.title} if document.title else {}),
        }
        for number, document in enumerate(passages, 1)
    ]
    anchors = _selected(judged.expectation, key) or _anchors(passages, judged.reading)
    return {"retrieved": retrieved, **({"expected_anchors": anchors} if anchors else {})}


def _selected(expectation: Expectation, key: bytes) -> list[dict[str, Any]]:
    """Passages that a person selected: their words, and the keyed digest of the document that holds them."""
    return [
        {
            "id": f"a{number}",
            "exact": evidence.quote,
            "role": "SUPPORTS",
            "doc_hmac": _keyed(key, "document", evidence.document_id)[:32],
        }
        for number, evidence in enumerate(expectation.evidence, 1)
    ]


def _anchors(passages: Sequence[Document], reading: Reading | None) -> list[dict[str, Any]]:
    """Passages that the fault finding points to, by their words: chunk ids die when a corpus is indexed again."""
    quoted = reading.finding.evidence if reading and reading.finding else ()
    known = {document.id for document in passages}
    return [
        {
            "id": f"a{number}",
            "exact": evidence.quote,
            "role": "SUPPORTS",
        }
        for number, evidence in enumerate((e for e in quoted if e.document_id in known and e.quote), 1)
    ]


def _answer(trace: RagTrace, passages: Sequence[Document], reading: Reading | None) -> dict[str, Any]:
    refs = {document.id: f"p{number}" for number, document in reversed(list(enumerate(passages, 1)))}
    cited = dict.fromkeys(refs[c.document_id] for c in trace.citations if c.document_id in refs)
    refused = trace.outcome == "refused" or (reading is not None and reading.assessment.refusal is Refusal.FULL)
    return {
        "observed": trace.answer or "",
        "citations": [{"passage_ref": ref} for ref in cited],
        "refused": refused,
        "app_version": trace.version,
        **({"model": trace.model} if trace.model else {}),
    }


def _expectation(judged: _Judged) -> dict[str, Any]:
    """What a person said of it, else what all that was retrieved can answer.

    Not known counts as PARTIAL, the middle, for a person to correct.
    """
    found = judged.reading.assessment if judged.reading else None
    said = judged.expectation
    known = (found.candidates_answerability or found.answerability) if found else None
    answerability = said.answerability or (known or Answerability.PARTIAL).value
    points = [{"id": f"k{n}", "text": text, "required": True} for n, text in enumerate(said.key_points, 1)]
    wrong = list(dict.fromkeys([*said.forbidden_claims, *judged.contradicted()]))[:_MAX_FORBIDDEN]
    return {
        "answerability": answerability,
        "expected_behavior": _behaviour(said.expected_behavior, answerability),
        **({"reference_answer": said.reference_answer} if said.reference_answer else {}),
        **({"key_points": points} if points else {}),
        **({"forbidden_claims": wrong} if wrong else {}),
    }


def _behaviour(said: str, answerability: str) -> str:
    """What was said, unless it is of another answerability than the one that holds: the format refuses the two."""
    fits = answerability != "NONE" or said in ("ABSTAIN", "CLARIFY")
    return said if said and fits else _BEHAVIOUR[answerability]


@dataclass(frozen=True, slots=True)
class _Judged:
    """The newest automatic headline verdict, if there is one, and what the person behind the review corrected."""

    reading: Reading | None = None
    identifier: str = ""
    explanation: str = ""
    label: Label | None = None

    @property
    def expectation(self) -> Expectation:
        return self.label.expectation if self.label else Expectation()

    def contradicted(self) -> list[str]:
        """Claims that the sources contradict: as the judge says, or the person where one said otherwise."""
        claims = {(c.start, c.end): c for c in self.reading.assessment.claims} if self.reading else {}
        claims |= {(c.start, c.end): c for c in self.label.claims} if self.label else {}
        return [claim.text for claim in claims.values() if claim.verdict is Verdict.CONTRADICTED]


def _judged(judgements: Sequence[Mapping[str, Any]], review: Mapping[str, Any]) -> _Judged:
    return replace(_automatic(judgements), label=labels.of_review(judgements, review))


def _automatic(judgements: Sequence[Mapping[str, Any]]) -> _Judged:
    headline = [
        row
        for row in judgements
        if row["criterion"] == Criterion.ANY_FAILURE and row["annotator_kind"] != AnnotatorKind.HUMAN
    ]
    if not headline:
        return _Judged()
    newest = max(headline, key=lambda row: (row["label"] == "fail", row["judged_at"]))
    try:
        reading = read_detail(orjson.loads(newest["detail"]))
    except (ValueError, KeyError, TypeError):  # an older or foreign shape: the candidate does without
        reading = None
    return _Judged(reading, str(newest["identifier"]), str(newest["explanation"]))


def _fault(judged: _Judged, review: Mapping[str, Any]) -> dict[str, Any]:
    finding = judged.reading.finding if judged.reading else None
    layer = review["fault_layer"] or (finding.layer.value if finding else "")
    why = judged.reading.reasons[0] if judged.reading and judged.reading.reasons else layer or "confirmed_failure"
    reason = review["note"] or (finding.explanation if finding else "") or judged.explanation
    return {
        "layer": LAYERS.get(layer, "UNKNOWN"),
        "type": str(why)[:64],
        "detector": judged.identifier or "person",
        **({"reason": reason} if reason else {}),
    }


def _known_values(trace: RagTrace, feedback: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Identifiers of this trace and its people: whatever text repeats them, they must not leave."""
    spans = [stage.span_id for stage in trace.stages]
    values = [trace.trace_id, trace.session, trace.user_hash, *spans, *(str(row["by"]) for row in feedback)]
    return [("ACCOUNT_ID", value) for value in dict.fromkeys(values) if len(value) >= 6]


# After redaction


def _reproduction(
    trace: RagTrace, passages: Sequence[Document], result: RedactionResult, verdict: ReproVerdict | None
) -> dict[str, Any]:
    """Whether a deterministic judge says the same of the redacted failure; a test that no longer fails is no test."""
    if verdict is None or result.status == "BLOCKED":
        return {"checked": False}
    try:
        before, after = verdict(trace), verdict(_redacted_trace(trace, passages, result.document))
    except Exception:
        return {"checked": False}  # the schema refuses the export of what was not checked
    return {"checked": True, "verdict_before": before, "verdict_after": after, "same": before == after}


def _redacted_trace(trace: RagTrace, passages: Sequence[Document], document: Mapping[str, Any]) -> RagTrace:
    shown = {
        (source.id, source.text): passage
        for source, passage in zip(passages, document["evidence"]["retrieved"], strict=True)
    }

    def swapped(documents: tuple[Document, ...] | None) -> tuple[Document, ...] | None:
        if documents is None:
            return None
        return tuple(_redacted(d, shown.get((d.id, d.text), {})) for d in documents)

    return replace(
        trace,
        query=document["question"]["text"],
        rewritten_query=document["question"].get("rewritten"),
        answer=document["answer"]["observed"] if trace.answer is not None else None,
        candidates=swapped(trace.candidates),
        reranked=swapped(trace.reranked),
        context=swapped(trace.context),
    )


def _redacted(document: Document, passage: Mapping[str, Any]) -> Document:
    text = passage.get("text", "") if document.text is not None else None
    return replace(document, text=text, title=passage.get("doc_label"))


def _fit(document: dict[str, Any]) -> None:
    """Cut texts to the format's limit, visibly, and only now: a cut before redaction leaves half a secret."""
    for passage in document["evidence"]["retrieved"]:
        passage["text"] = _cut(passage["text"])
    document["question"]["text"] = _cut(document["question"]["text"])
    document["answer"]["observed"] = _cut(document["answer"]["observed"])
    for anchor in document["evidence"].get("expected_anchors", ()):
        if "[[" not in anchor["exact"]:  # a digest of a placeholder would match nothing in the corpus
            anchor["norm_sha256"] = hashlib.sha256(families.normal(anchor["exact"]).encode()).hexdigest()


def _cut(text: str) -> str:
    if len(text) <= _MAX_TEXT:
        return text
    kept = text[: _MAX_TEXT - 40]
    opening = kept.rfind("[[")
    if opening > kept.rfind("]]"):
        kept = kept[:opening]
    return f"{kept} [cut: {len(text) - len(kept)} characters]"


def _doubts(trace: RagTrace, document: Mapping[str, Any]) -> list[str]:
    repro = document["redaction"]["repro"]
    doubts = [] if trace.query else ["question_not_captured"]
    doubts += ["not_reproduced"] if repro.get("same") is False else []
    return doubts + [f"schema:{problem}" for problem in problems(document)]


def _block(document: dict[str, Any], reasons: Sequence[str]) -> None:
    if reasons:
        document["redaction"]["status"] = "BLOCKED"
        document["redaction"]["residual"]["flags"] += [f"blocked:{reason}" for reason in reasons]


def candidate_id(key: bytes, trace_id: str) -> str:
    """The id that *trace_id* gets in this deployment; without the key nobody can go back."""
    return f"rc_{_keyed(key, 'candidate', trace_id)[:24]}"


def _keyed(key: bytes, purpose: str, value: str) -> str:
    if len(key) < 16:
        raise ValueError(f"the candidate key has {len(key)} bytes; accepted: at least 16")
    return hmac.new(key, f"{purpose}:{value}".encode(), hashlib.sha256).hexdigest()


def language(text: str) -> str:
    """``zh`` where Chinese characters carry the text, ``en`` for Latin letters, else ``und``. A coarse label."""
    letters = [char for char in text if char.isalpha()]
    chinese = sum("\u4e00" <= char <= "\u9fff" for char in letters)
    if chinese * 4 >= max(len(letters), 1):
        return "zh"
    return "en" if sum(char.isascii() for char in letters) * 2 >= max(len(letters), 1) else "und"


def _week(when: float) -> str:
    year, week, _day = datetime.fromtimestamp(when, UTC).isocalendar()
    return f"{year:04d}-W{week:02d}"


def stamp(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
