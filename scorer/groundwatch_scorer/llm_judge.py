"""The LLM judge: one structured call to any OpenAI-compatible endpoint; code checks what comes back."""

from __future__ import annotations

import json
import random
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import openai

from groundwatch_collector.ragtrace import COMPLETED, Document, RagTrace
from groundwatch_scorer import llm_reply, refusal
from groundwatch_scorer.citation_marks import with_plain_marks
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    Answerability,
    Assessment,
    CitationVerdict,
    ClaimVerdict,
    Evidence,
    JudgeCall,
    Refusal,
    Verdict,
)
from groundwatch_scorer.llm_budget import DailyBudget, MinuteBudget, Price, estimated_tokens
from groundwatch_scorer.llm_cache import ReplyCache
from groundwatch_scorer.llm_chat import Chat, Message, Reply, Unanswered
from groundwatch_scorer.llm_quotes import find_most, find_quote
from groundwatch_scorer.llm_request import Limits, Line, Material, Passage, Redact, Request, lay_out
from groundwatch_scorer.local_judge import is_claim
from groundwatch_scorer.rubric import VERSION, Rubric, rubric
from groundwatch_scorer.text import is_chinese, sentences, tokens
from groundwatch_scorer.text_numbers import covered, quantities

UNSCORED_REASONS = frozenset(
    {
        "bad_reply",  # not the asked-for object, also after one repair
        "bad_request",  # the endpoint refuses the call in every form, or the text is too long for it
        "control_missing",  # the control sentence got no verdict
        "control_supported",  # the judge supports what no passage says: steered, or not able
        "endpoint_paused",  # several calls failed just before
        "endpoint_refused",  # the address may not be used, or it redirects
        "judge_error",  # a defect of this judge
        "model_refused",
        "nonce_repeated",  # the reply repeats what it was told never to repeat
        "not_authorised",
        "not_found",
        "over_budget",
        "over_rate",  # no place among the requests or tokens of the next half minute
        "rate_limited",
        "redaction_failed",
        "server_error",
        "timeout",
        "unknown_price",  # a money budget is set, and what the model costs is not known
        "unreachable",
    }
)
"""Why this judge gives no verdict (closed set)."""

FLAGS = frozenset(
    {
        "answer_cut",  # sentences beyond the limit were not judged
        "context_truncated",
        "context_unknown",  # the documents were not captured
        "empty_answer",
        "fabricated_quote",
        "injection_suspected",
        "missing_sentence",
        "no_context",
        "number_disagreement",  # supported, with a number that stands in no passage
        "reply_cached",  # the same text was read before; nothing was asked
        "reply_repaired",
        "retried",  # a call that failed was made again
        "unknown_id",
        "weak_evidence",
    }
)

_VERDICTS = {
    "supported": Verdict.SUPPORTED,
    "contradicted": Verdict.CONTRADICTED,
    "not_mentioned": Verdict.NOT_MENTIONED,
}
_UNSUPPORTED_PROBABILITY = {
    Verdict.SUPPORTED: 0.0,
    Verdict.CONTRADICTED: 1.0,
    Verdict.NOT_MENTIONED: 1.0,
    Verdict.UNCERTAIN: 0.5,
}
_WORST_FIRST = (Verdict.CONTRADICTED, Verdict.NOT_MENTIONED, Verdict.UNCERTAIN, Verdict.SUPPORTED)
_SHARES = {"relevant": 1.0, "partial": 0.5, "irrelevant": 0.0, "full": 1.0, "none": 0.0}
_LONGEST_NOTE = 300
_LONGEST_REPAIR = 8_000  # characters of a broken reply that are sent back
# Text that speaks to a judge instead of to a user. Only labels the trace; it changes no verdict.
_TO_A_GRADER = re.compile(
    r"\b(?:grader|evaluator|judge|assistant)s?\b.{0,40}\b(?:must|should|mark|label|rate|score|output|respond)\b"
    r"|\bignore (?:all |any |the )?(?:previous|prior|above) (?:instructions?|rules?)\b"
    r"|\bmark (?:this|it|all|every\w*)\b.{0,30}\b(?:supported|correct|faithful)\b"
    r"|\"(?:label|verdict)\"\s*:\s*\""
    r"|(?:评审|评分|评判|裁判|评估)(?:员|者|模型|系统|人)?[^。！？\n]{0,20}(?:请|应|必须|标记|判定|输出)"
    r"|忽略(?:以上|之前|前面|上述)[^。！？\n]{0,10}(?:指令|指示|规则|要求)",
    re.IGNORECASE | re.DOTALL,
)


def identifier_of(model: str, version: str = VERSION) -> str:
    """The name under which *model* judges with this version of the rubric; another one starts another series."""
    return f"llm:{model}:{version}"


class LlmJudge:
    """Reads a trace through a language model, by *instructions* or the shipped rubric. For threads; never raises.

    *redact* is applied to every text before it leaves; when it fails nothing is sent. *prices* gives the price of a
    model; *max_usd_per_day* stops the judge for the rest of the UTC day, *already_spent_usd* is what today has cost
    before this process. In any minute at most *requests_per_minute* and *tokens_per_minute* go out (0: no limit); a
    call waits for its place, up to half a minute. *nonce* gives hexadecimal digits, at least 8. What may pass is
    tried *retries* times again; a reply in the wrong form is sent back for repair once. *cache_replies* good replies
    are kept and used where the same text comes again. An answer of more than *max_sentences* is put in up to
    *max_calls* calls of as many.
    """

    def __init__(
        self,
        client: openai.OpenAI,
        model: str,
        *,
        instructions: Rubric | None = None,
        timeout_seconds: float = 30.0,
        redact: Redact | None = None,
        prices: Mapping[str, Price] | None = None,
        max_usd_per_day: float | None = None,
        already_spent_usd: float = 0.0,
        requests_per_minute: int = 0,
        tokens_per_minute: int = 0,
        retries: int = 1,
        cache_replies: int = 0,
        max_context_characters: int = 48_000,
        max_candidate_characters: int = 16_000,
        max_sentences: int = 40,
        max_calls: int = 3,
        pause_seconds: float = 30.0,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        nonce: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._rubric = instructions or rubric()
        self._identifier = identifier_of(model, self._rubric.version)
        self._chat = Chat(
            client,
            model,
            timeout_seconds=timeout_seconds,
            pause_seconds=pause_seconds,
            minute=MinuteBudget(requests_per_minute, tokens_per_minute, clock=clock, sleep=sleep),
            retries=retries,
            sleep=sleep,
            jitter=jitter,
            clock=clock,
        )
        self._redact = redact or (lambda text: text)
        price = (prices or {}).get(model)
        self._budget = DailyBudget(price, max_usd_per_day, now=now(), spent_usd=already_spent_usd)
        self._cache = ReplyCache(cache_replies)
        self._limits = Limits(max_context_characters, max_candidate_characters, max_sentences, max_calls)
        self._now = now
        self._clock = clock
        self._nonce = nonce

    @property
    def identifier(self) -> str:
        return self._identifier

    def assess(self, trace: RagTrace) -> Assessment:
        return self._assess(trace, remember=True)

    def assess_again(self, trace: RagTrace) -> Assessment:
        """A reading of its own, whatever was read before."""
        return self._assess(trace, remember=False)

    def _assess(self, trace: RagTrace, *, remember: bool) -> Assessment:
        started = self._clock()
        call = _Call()
        try:
            found = self._without_call(trace) or self._with_call(trace, call, remember)
        except Unanswered as trouble:
            found = self._assessment(unscored_reason=trouble.reason)
        except Exception:  # one trace must not stop the queue
            found = self._assessment(unscored_reason="judge_error")
        return replace(
            found,
            flags=tuple(sorted({*found.flags, *call.flags})),
            latency_seconds=self._clock() - started,
            input_tokens=call.input_tokens if call.made else None,
            output_tokens=call.output_tokens if call.made else None,
            cost_usd=call.cost_usd if call.made else None,
        )

    def _assessment(self, **changes: Any) -> Assessment:
        return Assessment(self._identifier, AnnotatorKind.LLM, **changes)

    def _without_call(self, trace: RagTrace) -> Assessment | None:
        """What needs no model to be known."""
        answer = trace.answer or ""
        if not answer.strip() or trace.outcome not in COMPLETED:
            return self._assessment(flags=("empty_answer",) if not answer.strip() else ())
        has_candidates = any(d.text for d in trace.candidates or ())
        if any(d.text for d in trace.context or ()) or (trace.context == () and has_candidates):
            return None
        refused = refusal.classify(answer)
        known = trace.context == ()
        verdict, reason = (Verdict.NOT_MENTIONED, "no_context") if known else (Verdict.UNCERTAIN, "context_unknown")
        return self._assessment(
            claims=() if refused is Refusal.FULL else _alike(trace, verdict, reason),
            refusal=refused,
            answerability=Answerability.NONE if known else None,
            flags=(reason,),
        )

    def _with_call(self, trace: RagTrace, call: _Call, remember: bool) -> Assessment:
        try:
            material = lay_out(trace, self._limits, self._redact)
        except Exception as error:
            raise Unanswered("redaction_failed") from error
        parts = material.parts(self._limits.sentences)
        return _together([self._part(trace, part, call, remember) for part in parts])

    def _part(self, trace: RagTrace, material: Material, call: _Call, remember: bool) -> Assessment:
        key = f"{self._identifier} {llm_reply.SCHEMA_NAME} {material.digest()}"
        request, reply = (self._kept(key, material, call) if remember else None) or self._fresh(key, material, call)
        asked = JudgeCall(request.document(), json.dumps(reply, ensure_ascii=False))
        return replace(_Reading(trace, request, reply).assessment(self._assessment()), calls=(asked,))

    def _kept(self, key: str, material: Material, call: _Call) -> tuple[Request, Mapping[str, Any]] | None:
        kept = self._cache.get(key, self._now())
        if kept is None:
            return None
        call.add(0, 0, self._budget.spend(self._now(), 0, 0))
        call.flags.add("reply_cached")
        return material.request(kept.nonce), kept.reply

    def _fresh(self, key: str, material: Material, call: _Call) -> tuple[Request, Mapping[str, Any]]:
        request = material.request(self._nonce())
        reply = self._ask(request, call)
        _refuse_compromised(reply, request)
        self._cache.put(key, request.nonce, reply, self._now())  # only what may be believed
        return request, reply

    def _ask(self, request: Request, call: _Call) -> dict[str, Any]:
        most = min(8_000, 600 + 160 * len(request.lines) + 20 * (len(request.chunks) + len(request.retrieved)))
        messages: list[Message] = [{"role": "user", "content": request.document()}]
        reply = self._say(messages, most, call)
        try:
            return llm_reply.parse(reply.text)
        except llm_reply.BadReply as bad:
            problem = "it was cut off" if reply.cut else str(bad)
        messages += [
            {"role": "assistant", "content": reply.text[:_LONGEST_REPAIR] or "(empty)"},
            {"role": "user", "content": f"This is not the asked-for object: {problem}. Send the whole object again."},
        ]
        reply = self._say(messages, most * 2, call)
        try:
            found = llm_reply.parse(reply.text)
        except llm_reply.BadReply:
            raise Unanswered("bad_reply") from None
        call.flags.add("reply_repaired")
        return found

    def _say(self, messages: Sequence[Message], max_tokens: int, call: _Call) -> Reply:
        size = estimated_tokens([self._rubric.text, *(message["content"] for message in messages)])
        why = self._budget.hold(self._now(), size, max_tokens)
        if why:
            raise Unanswered(why)
        try:
            return self._paid(messages, size, max_tokens, call)
        finally:
            self._budget.release(size, max_tokens)

    def _paid(self, messages: Sequence[Message], size: int, max_tokens: int, call: _Call) -> Reply:
        try:
            reply = self._chat.ask(self._rubric.text, messages, size, max_tokens)
        except Unanswered as trouble:
            if trouble.reason == "timeout":  # the provider may well have worked, and will charge for it
                call.add(size, 0, self._budget.spend(self._now(), size, 0))
            raise
        if reply.retried:
            call.flags.add("retried")
        used = (reply.input_tokens or size, reply.output_tokens or estimated_tokens([reply.text]))
        call.add(reply.input_tokens, reply.output_tokens, self._budget.spend(self._now(), *used))
        return reply


@dataclass(slots=True)
class _Call:
    """What one reading has used so far, also when it comes to nothing."""

    made: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    flags: set[str] = field(default_factory=set)

    def add(self, input_tokens: int, output_tokens: int, cost_usd: float | None) -> None:
        self.made = True
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd


def _alike(trace: RagTrace, verdict: Verdict, reason: str) -> tuple[ClaimVerdict, ...]:
    """The same verdict for every claim of the answer; a citation mark of whatever form is no claim."""
    answer = trace.answer or ""
    plain = with_plain_marks(answer, trace)
    spans = [s for s in sentences(plain) if is_claim(plain[s.start : s.end], s)]
    probability = _UNSUPPORTED_PROBABILITY[verdict]
    return tuple(ClaimVerdict(answer[s.start : s.end], s.start, s.end, verdict, probability, reason) for s in spans)


def _refuse_compromised(reply: Mapping[str, Any], request: Request) -> None:
    """Raise :class:`Unanswered` for a judge that has been steered, or that waves everything through."""
    if any(request.nonce in text for text in llm_reply.free_text(reply)):
        raise Unanswered("nonce_repeated")
    control = next(line for line in request.lines if line.control)
    labels = {claim["label"] for claim in reply["claims"] if claim["sentence_id"] == control.id}
    if "supported" in labels:
        raise Unanswered("control_supported")
    if not labels & {"contradicted", "not_mentioned"}:
        raise Unanswered("control_missing")


def _together(parts: Sequence[Assessment]) -> Assessment:
    """The reading of an answer that was put in several calls. What concerns the passages is taken from the first."""
    refusals = {part.refusal for part in parts}
    relevances = [part.answer_relevance for part in parts if part.answer_relevance is not None]
    return replace(
        parts[0],
        claims=tuple(claim for part in parts for claim in part.claims),
        calls=tuple(call for part in parts for call in part.calls),
        refusal=refusals.pop() if len(refusals) == 1 else Refusal.PARTIAL,
        answer_relevance=max(relevances, default=None),
        citations=tuple(_cited_anywhere(found) for found in zip(*(part.citations for part in parts), strict=True)),
        flags=tuple(sorted({flag for part in parts for flag in part.flags})),
    )


def _cited_anywhere(found: Sequence[CitationVerdict]) -> CitationVerdict:
    """One mark, where it stands in any of the parts: it supports if it does so wherever that could be told."""
    said = {verdict.supports for verdict in found}
    return replace(found[0], supports=False if False in said else True if True in said else None)


class _Reading:
    """One reply, checked against what was asked."""

    def __init__(self, trace: RagTrace, request: Request, reply: Mapping[str, Any]) -> None:
        self.trace = trace
        self.request = request
        self.reply = reply
        self.flags: set[str] = set()
        self.stated = [q for p in (*request.chunks, *request.retrieved) for q in quantities(p.sent)]

    def assessment(self, blank: Assessment) -> Assessment:
        reply, request = self.reply, self.request
        refused = Refusal(reply["refusal"])
        claims = () if refused is Refusal.FULL else self._claims()
        self._note_flags()
        return replace(
            blank,
            claims=claims,
            refusal=refused,
            answerability=self._answerability("answerability", bool(request.chunks)),
            candidates_answerability=self._candidates_answerability(),
            answer_relevance=None if refused is Refusal.FULL else _SHARES[reply["answer_relevance"]],
            context_relevance=self._relevance(self.trace.context),
            candidate_relevance=self._relevance(self.trace.candidates),
            citations=self._citations(),
            explanation=str(reply["answerability"]["reason"])[:_LONGEST_NOTE],
            flags=tuple(sorted(self.flags)),
        )

    def _note_flags(self) -> None:
        request = self.request
        if request.context_cut:
            self.flags.add("context_truncated")
        if request.answer_cut:
            self.flags.add("answer_cut")
        if not request.chunks:
            self.flags.add("no_context")
        texts = (*(p.sent for p in (*request.chunks, *request.retrieved)), *(line.text for line in request.lines))
        if self.reply["injection_suspected"]["where"] != "none" or any(_TO_A_GRADER.search(t) for t in texts):
            self.flags.add("injection_suspected")

    # --- claims ---

    def _claims(self) -> tuple[ClaimVerdict, ...]:
        by_line: dict[str, list[Mapping[str, Any]]] = {line.id: [] for line in self.request.lines}
        for claim in self.reply["claims"]:
            if claim["sentence_id"] in by_line:
                by_line[claim["sentence_id"]].append(claim)
            else:
                self.flags.add("unknown_id")
        found = [self._line(line, by_line[line.id]) for line in self.request.lines if not line.control]
        return (*(claim for claim in found if claim is not None), *self._not_sent())

    def _not_sent(self) -> tuple[ClaimVerdict, ...]:
        if not self.request.answer_cut:
            return ()
        read_to = max(line.end for line in self.request.lines)
        return tuple(c for c in _alike(self.trace, Verdict.UNCERTAIN, "not_sent") if c.start >= read_to)

    def _line(self, line: Line, claims: Sequence[Mapping[str, Any]]) -> ClaimVerdict | None:
        """One verdict a sentence: the worst of its claims, so that splitting cannot thin a failure out."""
        judged = [self._claim(line, claim) for claim in claims if claim["label"] != "no_claim"]
        if not judged:
            if claims or not line.claim:
                return None  # the model says, or our rules say, that nothing is asserted
            self.flags.add("missing_sentence")
            return self._verdict(line, Verdict.UNCERTAIN, "missing_sentence")
        worst = min(judged, key=lambda claim: _WORST_FIRST.index(claim.verdict))
        evidence = tuple(dict.fromkeys(e for claim in judged for e in claim.evidence))
        return replace(worst, evidence=evidence)

    def _claim(self, line: Line, claim: Mapping[str, Any]) -> ClaimVerdict:
        note = str(claim["reason"])[:_LONGEST_NOTE]
        verdict = _VERDICTS[claim["label"]]
        if not self.request.chunks:
            return self._verdict(line, Verdict.NOT_MENTIONED, "no_context", note=note)
        if verdict is Verdict.NOT_MENTIONED:
            if self.request.context_cut:  # it may be mentioned in what was not sent
                return self._verdict(line, Verdict.UNCERTAIN, "context_truncated", note=note)
            return self._verdict(line, verdict, "not_mentioned", note=note)
        evidence, trouble = self._evidence(line, claim["evidence"])
        if trouble:
            return self._verdict(line, Verdict.UNCERTAIN, trouble, note=note)
        if verdict is Verdict.SUPPORTED and not all(covered(q, self.stated) for q in quantities(line.text)):
            self.flags.add("number_disagreement")
        return self._verdict(line, verdict, str(claim["label"]), evidence, note=note)

    def _verdict(
        self, line: Line, verdict: Verdict, reason: str, evidence: tuple[Evidence, ...] = (), *, note: str = ""
    ) -> ClaimVerdict:
        text = (self.trace.answer or "")[line.start : line.end]
        probability = _UNSUPPORTED_PROBABILITY[verdict]
        return ClaimVerdict(text, line.start, line.end, verdict, probability, reason, evidence, note)

    def _evidence(self, line: Line, quotes: Sequence[Mapping[str, str]]) -> tuple[tuple[Evidence, ...], str]:
        """The quotes that stand in the documents, or why the claim may not rest on them."""
        if not quotes:
            return (), "no_quote"
        found: list[Evidence] = []
        bears = False
        for quote in quotes:
            passage = self.request.passage(quote["chunk_id"])
            if passage is None or passage.where != "context":
                self.flags.add("unknown_id")
                return (), "unknown_id"
            if find_quote(quote["quote"], passage.sent) is None:
                self.flags.add("fabricated_quote")
                return (), "fabricated_quote"
            bears = bears or _bears_on(quote["quote"], line.text)
            found.extend(_located(quote["quote"], passage))
        if not bears:
            self.flags.add("weak_evidence")
            return (), "weak_evidence"
        return tuple(found), ""

    # --- the rest ---

    def _answerability(self, key: str, known: bool) -> Answerability:
        return Answerability(self.reply[key]["label"]) if known else Answerability.NONE

    def _candidates_answerability(self) -> Answerability | None:
        if self.trace.candidates is None:
            return None
        if self.request.retrieved:
            return self._answerability("retrieved_answerability", known=True)
        return self._answerability("answerability", bool(self.request.chunks))

    def _relevance(self, documents: tuple[Document, ...] | None) -> tuple[float | None, ...]:
        """Per document of the list; a candidate that went into the context has the relevance found there."""
        given = {row["id"]: _SHARES[row["relevance"]] for key in ("chunks", "retrieved") for row in self.reply[key]}
        shares: dict[str | None, float | None] = {}
        for passage in (*self.request.retrieved, *self.request.chunks):
            shares[passage.document.id] = shares[passage.document.text] = given.get(passage.id)
        return tuple(shares.get(d.id, shares.get(d.text) if d.text else None) for d in documents or ())

    def _citations(self) -> tuple[CitationVerdict, ...]:
        given = {(row["sentence_id"], row["chunk_id"]): row["label"] for row in self.reply["citations"]}
        ids = {p.document.id: p.id for p in self.request.chunks}
        answer = self.trace.answer or ""
        found: list[CitationVerdict] = []
        for citation in self.trace.citations:
            chunk = ids.get(citation.document_id)
            lines = [
                line.id
                for line in self.request.lines
                if not line.control
                and chunk in self.request.cited.get(line.id, ())
                and citation.marker in answer[line.start : line.end]
            ]
            labels = [given.get((line, chunk)) for line in lines] if chunk else []
            found.append(CitationVerdict(citation.marker, citation.document_id, self._supports(chunk, labels)))
        return tuple(found)

    def _supports(self, chunk: str | None, labels: Sequence[str | None]) -> bool | None:
        if chunk is None:  # cited, and not in front of the model
            return None if self.request.context_cut or not self.request.chunks else False
        if "does_not_support" in labels:
            return False
        return True if labels and all(label == "supports" for label in labels) else None


def _bears_on(quote: str, sentence: str) -> bool:
    """Whether a quote shares a content word or a number with the sentence; across languages that cannot be asked."""
    if is_chinese(quote) != is_chinese(sentence):
        return True
    if not set(tokens(quote)).isdisjoint(tokens(sentence)):
        return True
    stated = quantities(quote)
    return any(covered(q, stated) for q in quantities(sentence))


def _located(quote: str, passage: Passage) -> list[Evidence]:
    """The quote as a true substring of the document; of a redacted passage the longest part that stands in it."""
    text = passage.document.text or ""
    span = find_most(quote, text)
    if span is None:
        return []
    return [Evidence(passage.document.id, *span, text[slice(*span)], passage.where)]
