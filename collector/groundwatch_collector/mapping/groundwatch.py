"""Spans of our own SDK: exact, nothing is guessed except an outcome that was never recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from groundwatch import names
from groundwatch_collector.mapping import tree as trees
from groundwatch_collector.mapping.outcome import Evidence, infer
from groundwatch_collector.mapping.tree import Tree
from groundwatch_collector.mapping.values import (
    MAX_COST_USD,
    MAX_SECONDS,
    Found,
    Notes,
    amount,
    count,
    documents,
    first_text,
    label,
    parse,
    text,
)
from groundwatch_collector.ragtrace import Citation, Document, Feedback, Outcome, RagTrace, Usage
from groundwatch_collector.spans import Span

# Where each list is looked for: its own stage first, then wherever else the SDK may have put it.
_LISTS = {
    "candidates": (names.CANDIDATES, "candidates"),
    "reranked": (names.RERANKED, "rerank"),
    "context": (names.CONTEXT, "context"),
}


def is_ours(span: Span) -> bool:
    return span.scope_name == names.SCOPE_NAME or names.STAGE in span.attributes


def read(tree: Tree, feedback: Sequence[Feedback], notes: Notes, *, incomplete: bool) -> RagTrace | None:
    ours = [span for span in tree.spans if is_ours(span)]
    started_at, duration = trees.extent(tree, notes)
    lists = {name: _documents(ours, name, notes) for name in _LISTS}
    lists["reranked"] = _with_text(lists["reranked"], (lists["candidates"],), notes)
    lists["context"] = _with_text(lists["context"], (lists["reranked"], lists["candidates"]), notes)
    query, answer = _root_text(tree, names.QUERY, "query", notes), _answer(tree, ours, notes)
    rewritten = notes.take("rewritten_query", _rewritten(ours, query, notes))
    outcome, recorded = _outcome(tree, ours, lists["candidates"], answer, notes)
    app, version = trees.identity(tree.spans)
    return RagTrace(
        trace_id=tree.spans[0].trace_id,
        app=app,
        version=version,
        project=trees.project(tree, notes),
        started_at=started_at,
        duration_seconds=duration,
        outcome=outcome,
        outcome_source="recorded" if recorded else "inferred",
        outcome_reason=_root_label(tree, names.OUTCOME_REASON, notes),
        query=query,
        rewritten_query=rewritten,
        candidates=lists["candidates"],
        reranked=lists["reranked"],
        context=lists["context"],
        answer=answer,
        citations=_citations(tree, ours, notes),
        error_class=_error_class(tree, ours, outcome, notes),
        retries=count(_from_any(tree, ours, names.RETRIES), notes) or 0,
        stages=trees.stages(tree, {span.span_id: _stage_name(span) for span in ours}, notes),
        time_to_first_token_seconds=amount(_from_any(tree, ours, names.FIRST_TOKEN), notes, MAX_SECONDS),
        usage=_usage(tree, ours, notes),
        model=_model(tree, ours, notes),
        session=_root_label(tree, names.SESSION, notes) or _root_label(tree, names.CONVERSATION, notes),
        user_hash=_root_label(tree, names.USER_HASH, notes)[:64],
        feedback=tuple(feedback),
        incomplete=incomplete,
        flags=_flags(ours, notes),
        convention="groundwatch",
        sources=notes.sources,
        span_count=len(tree.spans),
    )


def _stage_name(span: Span) -> str:
    stage = span.attributes.get(names.STAGE)
    return stage if isinstance(stage, str) and stage in names.STAGES else "other"


def _places(tree: Tree, ours: Sequence[Span]) -> Iterator[Span]:
    """The root, then our stages with the latest first: after a retry the last attempt is the one that counted."""
    if tree.root is not None:
        yield tree.root
    yield from (span for span in reversed(ours) if span is not tree.root)


def _from_any(tree: Tree, ours: Sequence[Span], key: str) -> object:
    return next((span.attributes[key] for span in _places(tree, ours) if key in span.attributes), None)


def _root_text(tree: Tree, key: str, name: str, notes: Notes) -> str | None:
    found = text(tree.root.attributes.get(key), notes) if tree.root is not None else None
    return None if found is None else notes.take(name, Found(found, key))


def _root_label(tree: Tree, key: str, notes: Notes) -> str:
    return label(tree.root.attributes.get(key), notes) if tree.root is not None else ""


def _answer(tree: Tree, ours: Sequence[Span], notes: Notes) -> str | None:
    found = _root_text(tree, names.ANSWER, "answer", notes)
    if found is not None:
        return found
    stages = [span for span in reversed(ours) if _stage_name(span) == "answer"]
    return notes.take(
        "answer", next((f for span in stages if (f := first_text(span.attributes, (names.ANSWER,), notes))), None)
    )


def _rewritten(ours: Sequence[Span], query: str | None, notes: Notes) -> Found | None:
    ordered = sorted(ours, key=lambda span: _stage_name(span) != "rewrite")
    for span in ordered:
        found = first_text(span.attributes, (names.REWRITTEN_QUERY,), notes)
        if found is not None and found.value != query:
            return found
    return None


def _documents(ours: Sequence[Span], name: str, notes: Notes) -> tuple[Document, ...] | None:
    key, stage = _LISTS[name]
    holders = [span for span in ours if key in span.attributes]
    own = [span for span in holders if _stage_name(span) == stage] or holders
    if not own:
        return None
    if len(own) > 1:
        notes.flags.add(f"several_{name}")
    found = documents(own[-1].attributes[key], notes)
    if found is not None:
        notes.sources[name] = key
    return found


def _with_text(
    found: tuple[Document, ...] | None, earlier: Sequence[tuple[Document, ...] | None], notes: Notes
) -> tuple[Document, ...] | None:
    """A document that a later stage names by its id alone has the text that an earlier stage showed under it."""
    if found is None or all(document.text is not None for document in found):
        return found
    texts = {document.id: document for known in reversed(earlier) for document in known or () if document.text}
    joined = tuple(_joined(document, texts.get(document.id)) for document in found)
    if joined != found:
        notes.flags.add("text_joined_by_id")
    return joined


def _joined(document: Document, known: Document | None) -> Document:
    if document.text is not None or known is None:
        return document
    return replace(document, text=known.text, cut=known.cut, title=document.title or known.title)


def _outcome(
    tree: Tree, ours: Sequence[Span], candidates: tuple[Document, ...] | None, answer: str | None, notes: Notes
) -> tuple[Outcome, bool]:
    word = tree.root.attributes.get(names.OUTCOME) if tree.root is not None else None
    if word is not None:
        notes.sources["outcome"] = names.OUTCOME
        try:
            return Outcome(str(word)), True
        except ValueError:
            notes.flags.add("unknown_outcome_word")
            return Outcome.UNKNOWN, True
    notes.flags.add("outcome_not_recorded")
    outcome, rule = infer(_evidence(tree, ours, candidates, answer, notes))
    notes.sources["outcome"] = f"rule:{rule}"
    return outcome, False


def _evidence(
    tree: Tree, ours: Sequence[Span], candidates: tuple[Document, ...] | None, answer: str | None, notes: Notes
) -> Evidence:
    ends = [span for span in ours if span is tree.root or _stage_name(span) == "answer"]
    return Evidence(
        error_classes=[trees.error_class(span, notes) for span in ends],
        status_messages=[span.status_message for span in ends],
        failed=any(span.status == "error" for span in ends),
        documents=None if candidates is None else len(candidates),
        answer=answer,
    )


def _error_class(tree: Tree, ours: Sequence[Span], outcome: Outcome, notes: Notes) -> str:
    at_root = trees.error_class(tree.root, notes) if tree.root is not None else ""
    if at_root or outcome not in (Outcome.ERROR, Outcome.TIMEOUT, Outcome.CANCELLED):
        return at_root
    return next((found for span in reversed(ours) if (found := trees.error_class(span, notes))), "")


def _citations(tree: Tree, ours: Sequence[Span], notes: Notes) -> tuple[Citation, ...]:
    value = _from_any(tree, ours, names.CITATIONS)
    raw = parse(value, notes)
    if raw is None:
        return ()
    if not isinstance(raw, list):
        notes.flags.add("citations_invalid")
        return ()
    notes.sources["citations"] = names.CITATIONS
    return tuple(_citation(entry, notes) for entry in raw[:200] if isinstance(entry, (dict, str)))


def _citation(entry: dict[str, object] | str, notes: Notes) -> Citation:
    if isinstance(entry, str):
        return Citation(label(entry, notes))
    return Citation(label(entry.get("id"), notes), label(entry.get("marker"), notes, 50))


def _usage(tree: Tree, ours: Sequence[Span], notes: Notes) -> Usage:
    return Usage(
        input_tokens=_tokens(tree, ours, names.INPUT_TOKENS, notes),
        output_tokens=_tokens(tree, ours, names.OUTPUT_TOKENS, notes),
        cost_usd=amount(_from_any(tree, ours, names.COST_USD), notes, MAX_COST_USD),
    )


def _tokens(tree: Tree, ours: Sequence[Span], key: str, notes: Notes) -> int | None:
    """The request's own total when it carries one, else the sum over its stages."""
    if tree.root is not None and key in tree.root.attributes:
        return count(tree.root.attributes[key], notes)
    found = [n for span in ours if (n := count(span.attributes.get(key), notes)) is not None]
    return sum(found) if found else None


def _model(tree: Tree, ours: Sequence[Span], notes: Notes) -> str:
    answers = [span for span in reversed(ours) if _stage_name(span) == "answer"]
    for key in (names.RESPONSE_MODEL, names.REQUEST_MODEL):
        for span in (*answers, *_places(tree, ours)):
            if found := label(span.attributes.get(key), notes):
                return found
    return ""


def _flags(ours: Sequence[Span], notes: Notes) -> tuple[str, ...]:
    for span in ours:
        if _listed(span, names.TRUNCATED, notes):
            notes.flags.add("cut_by_sender")
        notes.flags.update(label(flag, notes, 64) for flag in _listed(span, names.FLAGS, notes)[:20])
    return tuple(sorted(notes.flags))


def _listed(span: Span, key: str, notes: Notes) -> list[object]:
    value = span.attributes.get(key)
    if value is None:
        return []
    found = parse(value, notes)
    return found if isinstance(found, list) else []
