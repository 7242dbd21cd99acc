"""From the readings of foreign spans to one RAG trace: which call gave the answer, which list was which."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from groundwatch.outgoing import keyed_hash
from groundwatch_collector.mapping import tree as trees
from groundwatch_collector.mapping.outcome import Evidence, infer
from groundwatch_collector.mapping.reading import Reading, answer_in, question_in
from groundwatch_collector.mapping.several import Listed, joined, outermost, that_count
from groundwatch_collector.mapping.tree import Tree
from groundwatch_collector.mapping.values import Found, Notes, label
from groundwatch_collector.ragtrace import Citation, Document, Feedback, Outcome, RagTrace, Usage

_BLOCK = re.compile(r"^\s*\[(\d{1,3})\]\s*", re.MULTILINE)
_MARK = re.compile(r"\[(\d{1,3})\]")
_BLOCK_ID = re.compile(r"\(([^()\s]{1,100})\)\s*")
_STEPS = ("llm", "retrieval", "rerank")
_FAILED = (Outcome.ERROR, Outcome.TIMEOUT, Outcome.CANCELLED)
_Documents = tuple[Document, ...] | None


@dataclass(frozen=True, slots=True)
class _Parts:
    """The readings of one trace, sorted by what they did."""

    tree: Tree
    root: Reading | None
    retrievals: Sequence[Reading]
    reranks: Sequence[Reading]
    calls: Sequence[Reading]  # model calls, innermost first
    answer_call: Reading | None
    by_id: dict[str, Reading]


def compose(
    tree: Tree,
    readings: Sequence[Reading],
    feedback: Sequence[Feedback],
    notes: Notes,
    *,
    incomplete: bool,
    convention: str,
) -> RagTrace | None:
    parts = _parts(tree, readings, notes)
    if parts.root is not None and parts.root.role in _STEPS:
        notes.flags.add("no_request_span")  # one step alone: the rest of the request is in traces of its own
    query = notes.take("query", _query(parts, notes))
    if query is None and not parts.retrievals and not parts.reranks and not parts.calls:
        return None
    answer = notes.take("answer", _answer(parts, notes))
    candidates, reranked = (_with_texts(found, _texts(readings)) for found in _lists(parts, notes))
    context = _context(parts, candidates, reranked, notes)
    outcome, error_class = _outcome(parts, candidates, answer, notes)
    started_at, duration = trees.extent(tree, notes)
    app, version = trees.identity(tree.spans)
    return RagTrace(
        trace_id=tree.spans[0].trace_id,
        app=app,
        version=version,
        project=trees.project(tree, notes),
        started_at=started_at,
        duration_seconds=duration,
        outcome=outcome,
        outcome_source="inferred",
        query=query,
        rewritten_query=notes.take("rewritten_query", _rewritten(parts, query)),
        candidates=candidates,
        reranked=reranked,
        context=context,
        answer=answer,
        citations=_citations(answer, context, notes),
        error_class=error_class,
        stages=trees.stages(tree, _roles(parts), notes),
        time_to_first_token_seconds=_first_token(parts, started_at, notes),
        usage=_usage(parts, notes),
        model=_model(parts, notes),
        session=_first("session", parts.root, readings, notes),
        user_hash=_user_hash(app, _first("user", parts.root, readings, notes)),
        feedback=tuple(feedback),
        incomplete=incomplete,
        flags=tuple(sorted(notes.flags)),
        convention=convention,
        sources=notes.sources,
        span_count=len(tree.spans),
    )


def _parts(tree: Tree, readings: Sequence[Reading], notes: Notes) -> _Parts:
    by_id = {reading.span.span_id: reading for reading in readings}
    root = by_id[tree.root.span_id] if tree.root is not None else None
    of = {role: [reading for reading in readings if reading.role == role] for role in ("retrieval", "rerank", "llm")}
    calls = _innermost(tree, of["llm"])
    parts = _Parts(tree, root, of["retrieval"], of["rerank"], calls, None, by_id)
    return replace(parts, answer_call=_answer_call(parts, notes))


def _innermost(tree: Tree, found: Sequence[Reading]) -> list[Reading]:
    """Calls that hold no other call: a framework reports one model call once per layer."""
    ids = {reading.span.span_id for reading in found}
    outer = {parent.span_id for reading in found for parent in tree.ancestors(reading.span) if parent.span_id in ids}
    return [reading for reading in found if reading.span.span_id not in outer]


def _answer_call(parts: _Parts, notes: Notes) -> Reading | None:
    """The call whose text the request returned, else the last one that started after the last retrieval."""
    shown = answer_in(parts.root.output, notes) if parts.root is not None and parts.root.role != "llm" else None
    if shown is not None:
        for call in reversed(parts.calls):
            if call.output is not None and call.output.value in shown.value:
                notes.sources["answer_call"] = "rule:output_is_the_answer"
                return call
    retrieved = max((r.span.start_unix_nano for r in (*parts.retrievals, *parts.reranks)), default=0)
    after = [call for call in parts.calls if call.span.start_unix_nano >= retrieved]
    if not after:
        return None
    notes.sources["answer_call"] = "rule:last_after_retrieval"
    return after[-1]


def _query(parts: _Parts, notes: Notes) -> Found | None:
    if parts.root is not None and parts.root.role not in _STEPS:
        found = question_in(parts.root.input, notes)
        if found is not None:
            return found
    for call in parts.calls:
        if call.questions:
            return call.questions[0]
    for retrieval in (*parts.retrievals, *parts.reranks):
        found = question_in(retrieval.query, notes)
        if found is not None:
            return found
    return question_in(parts.calls[-1].input, notes) if parts.calls else None


def _answer(parts: _Parts, notes: Notes) -> Found | None:
    if parts.root is not None and parts.root.role not in _STEPS:
        found = answer_in(parts.root.output, notes)
        if found is not None:
            return found
    return parts.answer_call.output if parts.answer_call is not None else None


def _rewritten(parts: _Parts, query: str | None) -> Found | None:
    for retrieval in (*parts.retrievals, *parts.reranks):
        found = question_in(retrieval.query, Notes())
        if found is not None and found.value != query:
            return found
    return None


def _lists(parts: _Parts, notes: Notes) -> tuple[_Documents, _Documents]:
    """Candidates and reranked. A retriever around a retriever is a reranker when its list is another one."""
    known = [reading for reading in parts.retrievals if reading.documents is not None]
    inner = _innermost(parts.tree, known)
    candidates = _candidates(parts, inner, notes)
    rankings = [reading for reading in parts.reranks if reading.documents is not None]
    if not rankings:
        rankings = _rankings_around(parts.tree, inner, [reading for reading in known if reading not in inner])
    listed = [Listed(reading.span, reading.documents or (), reading) for reading in rankings]
    kept = that_count(listed, [reading.span for reading in inner])
    if not kept:
        return candidates, None
    if len(kept) > 1:
        notes.flags.add("several_reranked")
    notes.sources["reranked"] = kept[-1].of.documents_attribute
    return candidates, joined([entry.documents for entry in kept])


def _candidates(parts: _Parts, inner: Sequence[Reading], notes: Notes) -> _Documents:
    if not inner:
        return next((reading.input_documents for reading in parts.reranks if reading.input_documents), None)
    if len(inner) > 1:
        notes.flags.add("several_candidates")
    notes.sources["candidates"] = inner[-1].documents_attribute
    return joined([reading.documents or () for reading in inner])


def _rankings_around(tree: Tree, inner: Sequence[Reading], outer: Sequence[Reading]) -> list[Reading]:
    """Of each nest of retrievers the outermost whose list is not what the innermost ones found."""

    def is_inside(one: Reading, other: Reading) -> bool:
        return any(parent.span_id == other.span.span_id for parent in tree.ancestors(one.span))

    rankings = []
    for nest in outermost(outer, is_inside):  # parents before their children
        found = joined([reading.documents or () for reading in inner if is_inside(reading, nest[0])] or [()])
        different = (r for r in nest if _signature(r.documents or ()) != _signature(found))
        rankings += [ranking for ranking in [next(different, None)] if ranking is not None]
    return rankings


def _signature(found: Iterable[Document]) -> list[tuple[str, float | None]]:
    return [(document.id, document.score) for document in found]


def _texts(readings: Sequence[Reading]) -> dict[str, str]:
    """The text that any span of the trace shows under a document's id."""
    lists = [found for reading in readings for found in (reading.documents, reading.input_documents) if found]
    return {document.id: document.text for found in lists for document in found if document.text is not None}


def _with_texts(found: _Documents, texts: dict[str, str]) -> _Documents:
    """Give a document that came as an id alone the text that another layer showed under the same id."""
    if found is None:
        return None
    return tuple(d if d.text is not None else replace(d, text=texts.get(d.id)) for d in found)


def _context(parts: _Parts, candidates: _Documents, reranked: _Documents, notes: Notes) -> _Documents:
    """What the prompt of the answer call shows of the documents, in the order of the prompt."""
    known = reranked if reranked is not None else candidates
    if known == ():
        notes.sources["context"] = "rule:nothing_retrieved"
        return ()
    if parts.answer_call is None:
        return None
    variable = _variable(parts)
    prompt = variable.value if variable is not None else parts.answer_call.prompt
    found = _shown(prompt, (*(reranked or ()), *(candidates or ()))) or _blocks(prompt)
    if not found and variable is not None:
        found = (Document(id="context", rank=1, text=variable.value),)
    if not found:
        return None
    notes.flags.add("context_from_prompt")
    notes.sources["context"] = variable.attribute if variable is not None else "prompt"
    return found


def _variable(parts: _Parts) -> Found | None:
    """The prompt variable of the answer call, or of the layer around it that filled the template."""
    call = parts.answer_call
    if call is None or call.context is not None:
        return call.context if call is not None else None
    around = (parts.by_id[parent.span_id] for parent in parts.tree.ancestors(call.span))
    return next((reading.context for reading in around if reading.role == "llm" and reading.context), None)


def _shown(prompt: str, known: Sequence[Document]) -> tuple[Document, ...]:
    places: dict[str, tuple[int, Document]] = {}
    for document in known:
        if document.text and (place := prompt.find(document.text)) >= 0:
            places.setdefault(document.id, (place, document))
    ordered = sorted(places.values(), key=lambda pair: pair[0])
    return tuple(replace(document, rank=rank) for rank, (_place, document) in enumerate(ordered, start=1))


def _blocks(prompt: str) -> tuple[Document, ...]:
    """Numbered passages ``[1] (id) text`` as prompts commonly write them."""
    marks = list(_BLOCK.finditer(prompt))
    if not marks or [mark[1] for mark in marks] != [str(n) for n in range(1, len(marks) + 1)]:
        return ()
    ends = [mark.start() for mark in marks[1:]] + [len(prompt)]
    return tuple(
        _block(rank, prompt[mark.end() : end])
        for rank, (mark, end) in enumerate(zip(marks, ends, strict=True), start=1)
    )


def _block(rank: int, body: str) -> Document:
    body = re.split(r"\n\s*\n", body.strip(), maxsplit=1)[
        0
    ].strip()  # a blank line ends the list: the question follows
    named = _BLOCK_ID.match(body)
    if named is None:
        return Document(id=f"context-{rank}", rank=rank, text=body)
    return Document(id=named[1], rank=rank, text=body[named.end() :])


def _citations(answer: str | None, context: _Documents, notes: Notes) -> tuple[Citation, ...]:
    """Marks ``[n]`` in the answer, taken as the n-th document of the prompt: no convention records citations."""
    marks = dict.fromkeys(_MARK.findall(answer or ""))
    known = context or ()
    found = tuple(Citation(known[int(n) - 1].id, f"[{n}]") for n in marks if 0 < int(n) <= len(known))
    if found:
        notes.sources["citations"] = "rule:marks_in_answer"
    return found


def _outcome(parts: _Parts, candidates: _Documents, answer: str | None, notes: Notes) -> tuple[Outcome, str]:
    ends = [reading for reading in (parts.root, parts.answer_call) if reading is not None] or list(
        parts.by_id.values()
    )
    around = (
        [parts.by_id[p.span_id] for p in parts.tree.ancestors(parts.answer_call.span)] if parts.answer_call else []
    )
    chain = [*ends, *(reading for reading in around if reading.role == "llm")]
    call = parts.answer_call or parts.root or Reading(span=parts.tree.spans[0])
    evidence = Evidence(
        error_classes=[trees.error_class(reading.span, notes) for reading in chain],
        status_messages=[reading.span.status_message for reading in chain],
        failed=any(reading.span.status == "error" for reading in ends),
        finish_reasons=call.finish_reasons,
        streaming=call.streaming,
        usage_known=call.output_tokens is not None,
        call_unended=_is_unended(parts.answer_call),
        shown_is_prefix=_is_prefix(answer, parts.answer_call),
        outlived=_outlived(parts, call),
        documents=None if candidates is None else len(candidates),
        refusal_field=call.refusal,
        answer=answer,
    )
    outcome, rule = infer(evidence)
    notes.sources["outcome"] = f"rule:{rule}"
    named = next((name for name in evidence.error_classes if name), "")
    return outcome, named if outcome in _FAILED else ""


def _is_unended(call: Reading | None) -> bool:
    if call is None or not call.prompt or call.span.status == "error":
        return False
    return call.output is None and call.output_tokens is None and not call.finish_reasons


def _is_prefix(answer: str | None, call: Reading | None) -> bool:
    """Whether the request returned a beginning of what the model wrote, and not all of it."""
    if answer is None or call is None or call.output is None:
        return False
    written = call.output.value.strip()
    return len(answer.strip()) < len(written) and written.startswith(answer.strip())


def _outlived(parts: _Parts, call: Reading) -> bool:
    """Whether the reader of a stream went away: its instrumentor ends the request then, the call runs on."""
    root = parts.root
    if root is None or root is call or not call.streaming or root.output is not None or root.input is None:
        return False
    same_scope = root.span.scope_name == call.span.scope_name
    return same_scope and call.span.end_unix_nano > root.span.end_unix_nano > 0


def _roles(parts: _Parts) -> dict[str, str]:
    roles = {reading.span.span_id: "candidates" for reading in parts.retrievals}
    roles.update({reading.span.span_id: "rerank" for reading in parts.reranks})
    first = min((reading.span.start_unix_nano for reading in parts.retrievals), default=0)
    for call in parts.calls:
        if call is parts.answer_call:
            roles[call.span.span_id] = "answer"
        elif call.span.start_unix_nano < first:
            roles[call.span.span_id] = "rewrite"
    return roles


def _first_token(parts: _Parts, started_at: float, notes: Notes) -> float | None:
    call = parts.answer_call
    if call is None or call.first_token_at is None:
        return None
    if call.first_token_at < started_at:
        notes.flags.add("clock_skew")
        return None
    return call.first_token_at - started_at


def _usage(parts: _Parts, notes: Notes) -> Usage:
    """Tokens of every model call of the request, each call once; the request's own where no call tells any."""
    told = [call for call in parts.calls if call.output_tokens is not None or call.cost_usd is not None]
    calls = told or ([parts.root] if parts.root is not None else [])
    notes.sources["usage"] = notes.sources["cost"] = f"sum of {len(told)} calls" if told else "root"
    return Usage(
        _sum([call.input_tokens for call in calls]),
        _sum([call.output_tokens for call in calls]),
        _sum([call.cost_usd for call in calls]),
    )


_Number = TypeVar("_Number", int, float)


def _sum(found: Sequence[_Number | None]) -> _Number | None:
    known = [value for value in found if value is not None]
    return sum(known) if known else None


def _model(parts: _Parts, notes: Notes) -> str:
    first = [reading for reading in (parts.answer_call, parts.root) if reading is not None]
    return _first("model", None, first, notes)


def _first(name: str, root: Reading | None, readings: Sequence[Reading], notes: Notes) -> str:
    """The first value that a span tells, the root's before all others; its source is that span."""
    for reading in (*([root] if root is not None else []), *readings):
        value: str = getattr(reading, name)
        if value:
            notes.sources[name] = f"span:{label(reading.span.name, notes)}"
            return value
    return ""


def _user_hash(app: str, user: str) -> str:
    """As our SDK hashes a user of *app* when it was given no key of its own."""
    return keyed_hash(f"groundwatch:{app}".encode(), user) if user else ""
