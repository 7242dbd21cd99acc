"""The spans of one trace as a tree: each span once, in order of start, with its root found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from groundwatch import names
from groundwatch_collector.mapping.values import MAX_SECONDS, Notes, count, label
from groundwatch_collector.ragtrace import Stage
from groundwatch_collector.spans import Span

NANO = 1e-9
UNKNOWN_APP = "unknown_service"  # what OpenTelemetry calls a service without a name
MAX_STAGES = 300  # the waterfall of a request; more are counted by span_count and flagged


@dataclass(frozen=True, slots=True)
class Tree:
    spans: tuple[Span, ...]  # by start, then id: the order of arrival does not matter
    by_id: dict[str, Span]
    root: Span | None  # None when every top span has a parent that was not received

    def ancestors(self, span: Span) -> Iterator[Span]:
        """Parents of *span*, nearest first. A ring of parents ends where it began."""
        seen = {span.span_id}
        while (parent := self.by_id.get(span.parent_id)) is not None and parent.span_id not in seen:
            seen.add(parent.span_id)
            yield parent
            span = parent


def build(spans: Sequence[Span], notes: Notes) -> Tree:
    by_id: dict[str, Span] = {}
    for span in spans:
        known = by_id.setdefault(span.span_id, span)
        if known is not span and known != span:
            notes.flags.add("conflicting_spans")
        if span.dropped_attributes:
            notes.flags.add("attributes_dropped")
        notes.flags.update(span.flags)
    ordered = tuple(sorted(by_id.values(), key=lambda span: (span.start_unix_nano, span.span_id)))
    return Tree(ordered, by_id, _root(ordered, by_id, notes))


def is_request(span: Span) -> bool:
    """Whether our SDK wrote *span* as a request, which is a root even inside a caller's trace."""
    return span.attributes.get(names.STAGE) == "request"


def is_root(span: Span) -> bool:
    return not span.parent_id or is_request(span)


def _root(ordered: Sequence[Span], by_id: dict[str, Span], notes: Notes) -> Span | None:
    requests = [span for span in ordered if is_request(span)]
    if len(requests) > 1:
        notes.flags.add("several_requests")
    if requests:
        return requests[0]
    roots = [span for span in ordered if not span.parent_id]
    if len(roots) > 1:
        notes.flags.add("several_roots")
    if roots:
        return roots[0]
    return local_root(ordered, by_id, notes)


def local_root(ordered: Sequence[Span], by_id: dict[str, Span], notes: Notes) -> Span | None:
    """The only span whose parent is elsewhere: a caller that does not report to us. Several mean a lost root."""
    tops = [span for span in ordered if span.parent_id not in by_id]
    if len(tops) == 1 and not _is_part(tops[0]):
        notes.flags.add("parent_elsewhere")
        return tops[0]
    notes.flags.add("missing_root")
    return None


def has_local_root(spans: Sequence[Span]) -> bool:
    """Whether *spans* hang together under one top span."""
    ids = {span.span_id for span in spans}
    tops = [span for span in spans if span.parent_id not in ids]
    return len(tops) == 1 and not _is_part(tops[0])


def _is_part(span: Span) -> bool:
    """Whether our SDK wrote *span* inside a request, so that the request itself must exist."""
    return names.STAGE in span.attributes and not is_request(span)


def identity(spans: Sequence[Span]) -> tuple[str, str]:
    """App and version of a trace: the resource of its root, else of its first span that names one."""
    ordered = sorted(spans, key=lambda span: (not is_root(span), span.start_unix_nano, span.span_id))
    notes = Notes()
    for span in ordered:
        app = label(span.resource.get(names.SERVICE_NAME), notes)
        if app:
            return app, label(span.resource.get(names.SERVICE_VERSION), notes)
    return UNKNOWN_APP, ""


def project(tree: Tree, notes: Notes) -> str:
    """Whose ingest key brought the root (else the first span). Spans of several projects in one trace are noted."""
    found = {label(span.resource.get(names.PROJECT), notes) for span in tree.spans}
    if len(found) > 1:
        notes.flags.add("mixed_projects")
    first = tree.root or tree.spans[0]
    return label(first.resource.get(names.PROJECT), notes)


def extent(tree: Tree, notes: Notes) -> tuple[float, float]:
    """Start (Unix seconds) and duration of the request: the root's, else from the first start to the last end."""
    if tree.root is not None:
        return tree.root.start_unix_nano * NANO, duration(tree.root, notes)
    start = min(span.start_unix_nano for span in tree.spans)
    end = max(max(span.end_unix_nano, span.start_unix_nano) for span in tree.spans)
    return start * NANO, _seconds(start, end, notes)


def duration(span: Span, notes: Notes) -> float:
    if span.end_unix_nano == 0:
        notes.flags.add("span_not_ended")
        return 0.0
    if span.end_unix_nano < span.start_unix_nano:
        notes.flags.add("clock_skew")
        return 0.0
    return _seconds(span.start_unix_nano, span.end_unix_nano, notes)


def _seconds(start_unix_nano: int, end_unix_nano: int, notes: Notes) -> float:
    seconds = (end_unix_nano - start_unix_nano) * NANO
    if seconds > MAX_SECONDS:  # a start of 0, most often
        notes.flags.add("clock_skew")
        return 0.0
    return seconds


def error_class(span: Span, notes: Notes) -> str:
    """What went wrong in *span*, in the program's own words; "" when it did not fail."""
    if not span.events and span.status != "error" and names.ERROR_TYPE not in span.attributes:
        return ""
    named = label(span.attributes.get(names.ERROR_TYPE), notes)
    if named and named != "_OTHER":
        return named
    for event in span.events:
        if event.name != names.EXCEPTION_EVENT:
            continue
        raised = label(event.attributes.get(names.EXCEPTION_TYPE), notes)
        if raised:
            return raised
    return named or ("error" if span.status == "error" else "")


def stages(tree: Tree, roles: dict[str, str], notes: Notes) -> tuple[Stage, ...]:
    """One stage per span below the root; *roles* names them by span id, the rest are ``other``.

    A stage inside a stage of the same name is ``other``, so that summing durations by name counts time once.
    """
    found = [_stage(tree, span, roles, notes) for span in tree.spans if span is not tree.root]
    if len(found) > MAX_STAGES:
        notes.flags.add("stages_cut")
    return tuple(found[:MAX_STAGES])


def _stage(tree: Tree, span: Span, roles: dict[str, str], notes: Notes) -> Stage:
    name = roles.get(span.span_id, "other")
    if name != "other" and any(roles.get(parent.span_id) == name for parent in tree.ancestors(span)):
        name = "other"
    return Stage(
        name=name,
        span_id=span.span_id,
        parent_id=span.parent_id,
        label=label(span.name, notes),
        started_at=span.start_unix_nano * NANO,
        duration_seconds=duration(span, notes),
        status=span.status,
        error_class=error_class(span, notes),
        attempts=1 + (count(span.attributes.get(names.RETRIES), notes) or 0),
    )
