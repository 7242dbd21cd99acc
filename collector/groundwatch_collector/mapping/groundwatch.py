"""Spans of our own SDK: exact, nothing is guessed except an outcome that was never recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from groundwatch import names
from groundwatch_collector.lazy_trace import LazyTrace
from groundwatch_collector.mapping import tree as trees
from groundwatch_collector.mapping.outcome import Evidence, infer
from groundwatch_collector.mapping.several import Listed, joined, that_count
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
    plain_documents,
    text,
)
from groundwatch_collector.ragtrace import (
    Citation,
    Document,
    Feedback,
    Outcome,
    RagTrace,
    Stage,
    Usage,
    ranking_scores,
    shown_texts,
)
from groundwatch_collector.spans import Span

# Where each list is looked for: its own stage first, then wherever else the SDK may have put it.
_LISTS = {
    "candidates": (names.CANDIDATES, "candidates"),
    "reranked": (names.RERANKED, "rerank"),
    "context": (names.CONTEXT, "context"),
}


def is_ours(span: Span) -> bool:
    return span.scope_name == names.SCOPE_NAME or names.STAGE in span.attributes


def read(tree: Tree, feedback: Sequence[Feedback], notes: Notes, *, incomplete: bool) -> RagTrace:
    """The trace of *tree*. Whatever is not needed to sort and count it is read when it is first asked for."""
    return _Reading(tree, feedback, notes, incomplete).trace()


class _Reading:
    """The fields of one trace, each read once. It does not know its trace: a ring of the two would outlive both."""

    def __init__(self, tree: Tree, feedback: Sequence[Feedback], notes: Notes, incomplete: bool) -> None:
        self.tree, self.root, self.notes = tree, tree.root, notes
        self.ours = [span for span in tree.spans if is_ours(span)]
        self.stage_names = {span.span_id: _stage_name(span) for span in self.ours}
        self._values: dict[str, Any] = {"feedback": tuple(feedback), "incomplete": incomplete}

    def trace(self) -> RagTrace:
        known = self._values
        known["trace_id"], known["span_count"] = self.tree.spans[0].trace_id, len(self.tree.spans)
        known["app"], known["version"] = trees.identity(self.tree.spans)
        known["started_at"], known["duration_seconds"] = trees.extent(self.tree, self.notes)
        known["convention"], known["adjusted_count"] = "groundwatch", 1.0
        return LazyTrace(self.value, **known)

    def value(self, name: str) -> Any:
        """Field *name* of the trace."""
        if name not in self._values:
            self._values[name] = _READERS[name](self)
        return self._values[name]

    # What several fields look at.

    @cached_property
    def places(self) -> list[Span]:
        """The root, then our stages, latest first: after a retry the last attempt is the one that counted."""
        root = [self.root] if self.root is not None else []
        return root + [span for span in reversed(self.ours) if span is not self.root]

    @cached_property
    def anywhere(self) -> dict[str, Any]:
        """Each attribute as the first of ``places`` has it."""
        found: dict[str, Any] = {}
        for span in reversed(self.places):
            found.update(span.attributes)
        return found

    def documents(self, name: str) -> tuple[Document, ...] | None:
        found: tuple[Document, ...] | None = self.value(name)
        return found

    def root_text(self, key: str, name: str) -> str | None:
        found = text(self.root.attributes.get(key), self.notes) if self.root is not None else None
        return None if found is None else self.notes.take(name, Found(found, key))

    def root_label(self, key: str, limit: int = 200) -> str:
        return label(self.root.attributes.get(key), self.notes)[:limit] if self.root is not None else ""

    def notes_retries(self, span: Span) -> bool:
        return bool(count(span.attributes.get(names.RETRIES), self.notes))

    def stages_named(self, name: str) -> list[Span]:
        """Our stages called *name*, latest first."""
        return [span for span in reversed(self.ours) if self.stage_names[span.span_id] == name]


def _stage_name(span: Span) -> str:
    stage = span.attributes.get(names.STAGE)
    return stage if isinstance(stage, str) and stage in names.STAGES else "other"


def _answer(reading: _Reading) -> str | None:
    found = reading.root_text(names.ANSWER, "answer")
    if found is not None:
        return found
    notes, stages = reading.notes, reading.stages_named("answer")
    return notes.take(
        "answer", next((f for span in stages if (f := first_text(span.attributes, (names.ANSWER,), notes))), None)
    )


def _rewritten(reading: _Reading) -> str | None:
    ordered = sorted(reading.ours, key=lambda span: reading.stage_names[span.span_id] != "rewrite")
    for span in ordered:
        found = first_text(span.attributes, (names.REWRITTEN_QUERY,), reading.notes)
        if found is not None and found.value != reading.value("query"):
            return reading.notes.take("rewritten_query", found)
    return None


def _holders(reading: _Reading, name: str) -> list[Span]:
    """The spans that list *name* is read from, in order of start."""
    key, stage = _LISTS[name]
    holders = [span for span in reading.ours if key in span.attributes]
    return [span for span in holders if reading.stage_names[span.span_id] == stage] or holders


def _documents(reading: _Reading, name: str) -> tuple[Document, ...] | None:
    key, own = _LISTS[name][0], _holders(reading, name)
    if not own:
        return None
    found = [(span, documents(span.attributes[key], reading.notes)) for span in own]
    listed = [Listed(span, read, key) for span, read in found if read is not None]
    if not listed:
        return None
    reading.notes.sources[name] = key
    if len(own) == 1:
        return listed[0].documents
    reading.notes.flags.add(f"several_{name}")
    return joined([entry.documents for entry in _that_count(reading, name, listed)])


def _that_count(reading: _Reading, name: str, listed: list[Listed[str]]) -> list[Listed[str]]:
    """Searches are joined, but the last attempt counts; of contexts the one that the last model call read."""
    if name == "context" or reading.notes_retries(listed[-1].span):
        return listed[-1:]
    if name == "candidates":
        return listed
    return that_count(listed, reading.stages_named("candidates"))


def _plain(reading: _Reading, *lists: str) -> Sequence[Mapping[str, Any]] | None:
    """The first of *lists* that was sent, where it was sent once and nothing in it is to be mended."""
    for name in lists:
        if own := _holders(reading, name):
            return plain_documents(own[0].attributes[_LISTS[name][0]]) if len(own) == 1 else None
    return None


def _shown_texts(reading: _Reading) -> Sequence[str] | None:
    plain = _plain(reading, "context", "reranked", "candidates")
    texts = [entry.get("content") for entry in plain or ()]
    if plain is None or None in texts:  # a text may have to be joined from another list
        return shown_texts(reading.value)
    return texts  # type: ignore[return-value]  # there is no None among them


def _ranking_scores(reading: _Reading) -> Sequence[float | None] | None:
    plain = _plain(reading, "reranked", "candidates")
    return ranking_scores(reading.value) if plain is None else [entry.get(names.DOC_SCORE) for entry in plain]


def _with_text(reading: _Reading, name: str, *earlier: str) -> tuple[Document, ...] | None:
    """A document that a later stage names by its id alone has the text that an earlier stage showed under it."""
    found = _documents(reading, name)
    if found is None or all(document.text is not None for document in found):
        return found
    known = [reading.documents(list_name) for list_name in reversed(earlier)]
    texts = {document.id: document for shown in known for document in shown or () if document.text}
    joined = tuple(_joined(document, texts.get(document.id)) for document in found)
    if joined != found:
        reading.notes.flags.add("text_joined_by_id")
    return joined


def _joined(document: Document, known: Document | None) -> Document:
    if document.text is not None or known is None:
        return document
    return replace(document, text=known.text, cut=known.cut, title=document.title or known.title)


def _outcome(reading: _Reading) -> tuple[Outcome, Literal["recorded", "inferred"]]:
    notes = reading.notes
    word = reading.root.attributes.get(names.OUTCOME) if reading.root is not None else None
    if word is not None:
        notes.sources["outcome"] = names.OUTCOME
        try:
            return Outcome(str(word)), "recorded"
        except ValueError:
            notes.flags.add("unknown_outcome_word")
            return Outcome.UNKNOWN, "recorded"
    notes.flags.add("outcome_not_recorded")
    outcome, rule = infer(_evidence(reading))
    notes.sources["outcome"] = f"rule:{rule}"
    return outcome, "inferred"


def _evidence(reading: _Reading) -> Evidence:
    ends = [s for s in reading.ours if s is reading.root or reading.stage_names[s.span_id] == "answer"]
    candidates = reading.documents("candidates")
    return Evidence(
        error_classes=[trees.error_class(span, reading.notes) for span in ends],
        status_messages=[span.status_message for span in ends],
        failed=any(span.status == "error" for span in ends),
        documents=None if candidates is None else len(candidates),
        answer=reading.value("answer"),
    )


def _error_class(reading: _Reading) -> str:
    notes, root = reading.notes, reading.root
    at_root = trees.error_class(root, notes) if root is not None else ""
    if at_root or reading.value("outcome") not in (Outcome.ERROR, Outcome.TIMEOUT, Outcome.CANCELLED):
        return at_root
    return next((found for span in reversed(reading.ours) if (found := trees.error_class(span, notes))), "")


def _citations(reading: _Reading) -> tuple[Citation, ...]:
    notes = reading.notes
    raw = parse(reading.anywhere.get(names.CITATIONS), notes)
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


def _usage(reading: _Reading) -> Usage:
    return Usage(
        input_tokens=_tokens(reading, names.INPUT_TOKENS),
        output_tokens=_tokens(reading, names.OUTPUT_TOKENS),
        cost_usd=amount(reading.anywhere.get(names.COST_USD), reading.notes, MAX_COST_USD),
    )


def _tokens(reading: _Reading, key: str) -> int | None:
    """The request's own total when it carries one, else the sum over its stages."""
    root, notes = reading.root, reading.notes
    if root is not None and key in root.attributes:
        return count(root.attributes[key], notes)
    found = [n for span in reading.ours if (n := count(span.attributes.get(key), notes)) is not None]
    return sum(found) if found else None


def _model(reading: _Reading) -> str:
    for key in (names.RESPONSE_MODEL, names.REQUEST_MODEL):
        for span in (*reading.stages_named("answer"), *reading.places):
            if found := label(span.attributes.get(key), reading.notes):
                return found
    return ""


def _stages(reading: _Reading) -> tuple[Stage, ...]:
    return trees.stages(reading.tree, reading.stage_names, reading.notes)


def _flags(reading: _Reading) -> tuple[str, ...]:
    """Everything is read for them: each field may add its own."""
    for name in _READERS:
        if name in RagTrace.__slots__ and name not in ("flags", "sources"):
            reading.value(name)
    notes = reading.notes
    for span in reading.ours:
        if _listed(span, names.TRUNCATED, notes):
            notes.flags.add("cut_by_sender")
        notes.flags.update(label(flag, notes, 64) for flag in _listed(span, names.FLAGS, notes)[:20])
    return tuple(sorted(notes.flags))


def _sources(reading: _Reading) -> dict[str, str]:
    """In the order of the fields, whichever was read first."""
    reading.value("flags")
    found = reading.notes.sources
    return {name: found[name] for name in _READERS if name in found}


def _listed(span: Span, key: str, notes: Notes) -> list[object]:
    value = span.attributes.get(key)
    if value is None:
        return []
    found = parse(value, notes)
    return found if isinstance(found, list) else []


_READERS: Mapping[str, Callable[[_Reading], Any]] = {
    "outcome": lambda reading: reading.value("_outcome")[0],
    "outcome_source": lambda reading: reading.value("_outcome")[1],
    "outcome_reason": lambda reading: reading.root_label(names.OUTCOME_REASON),
    "query": lambda reading: reading.root_text(names.QUERY, "query"),
    "rewritten_query": _rewritten,
    "candidates": lambda reading: _documents(reading, "candidates"),
    "reranked": lambda reading: _with_text(reading, "reranked", "candidates"),
    "context": lambda reading: _with_text(reading, "context", "reranked", "candidates"),
    "answer": _answer,
    "citations": _citations,
    "error_class": _error_class,
    "retries": lambda reading: count(reading.anywhere.get(names.RETRIES), reading.notes) or 0,
    "stages": _stages,
    "time_to_first_token_seconds": lambda reading: amount(
        reading.anywhere.get(names.FIRST_TOKEN), reading.notes, MAX_SECONDS
    ),
    "usage": _usage,
    "model": _model,
    "session": lambda reading: reading.root_label(names.SESSION) or reading.root_label(names.CONVERSATION),
    "user_hash": lambda reading: reading.root_label(names.USER_HASH, 64),
    "project": lambda reading: trees.project(reading.tree, reading.notes),
    "flags": _flags,
    "sources": _sources,
    "shown_texts": _shown_texts,
    "ranking_scores": _ranking_scores,
    "_outcome": _outcome,
}
