"""Decode what OpenTelemetry exporters send. Hostile input is refused with a reason; it never crashes the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from groundwatch_collector.limits import Limits, Reason, Rejected
from groundwatch_collector.otlp_json import decode_json
from groundwatch_collector.otlp_protobuf import decode_protobuf
from groundwatch_collector.project_stamp import unstamped
from groundwatch_collector.spans import Span

__all__ = ["Decoded", "Encoding", "Rejected", "decode"]

Encoding: TypeAlias = Literal["protobuf", "json"]

_GZIP_MAGIC = b"\x1f\x8b"  # begins neither a protobuf nor a JSON body

_EXPLAINED = {
    Reason.BAD_TRACE_ID: "trace id missing, all zero or not 16 bytes (32 hex digits in JSON)",
    Reason.BAD_SPAN_ID: "span id missing, all zero or not 8 bytes (16 hex digits in JSON)",
    Reason.BAD_PARENT_ID: "parent span id not 8 bytes (16 hex digits in JSON)",
    Reason.TOO_DEEP: "an attribute value nests deeper than max_depth",
    Reason.TOO_MANY_ATTRIBUTES: "more attributes and list items than max_attributes_per_span",
    Reason.TOO_MANY_SPANS_IN_TRACE: "more spans of one trace than max_spans_per_trace",
}


@dataclass(frozen=True, slots=True)
class Decoded:
    """The good spans of a request, and what happened to the others."""

    spans: list[Span]
    rejected: Mapping[str, int]  # reason -> spans that were refused for it
    mended: Mapping[str, int]  # flag -> spans that were kept with it

    @property
    def rejected_spans(self) -> int:
        return sum(self.rejected.values())

    @property
    def rejection_message(self) -> str:
        """For the sender: what was wrong and how often; "" when nothing was."""
        total = len(self.spans) + self.rejected_spans
        return "; ".join(
            f"{count} of {total} spans refused: {_EXPLAINED[Reason(reason)]} ({reason})"
            for reason, count in sorted(self.rejected.items())
        )

    @property
    def first_reason(self) -> Reason:
        """The most frequent reason of a refusal. Only when there is one."""
        return Reason(max(self.rejected, key=lambda reason: self.rejected[reason]))


def decode(body: bytes, encoding: Encoding, limits: Limits | None = None, *, project: str = "") -> Decoded:
    """Decode an ``ExportTraceServiceRequest`` (decompressed). No bytes are an empty message in protobuf, not in JSON.

    A bad span is left out and counted; raises :class:`Rejected` when the request as a whole cannot be taken.
    *project*: whose key the body came with, where it does not carry the stamp yet.
    """
    limits = limits or Limits()
    body, stamp = unstamped(body, encoding)  # limits are for what was sent
    project = project or stamp
    if len(body) > limits.max_decompressed_bytes:
        raise Rejected(
            Reason.TOO_LARGE, f"body: {len(body)} bytes, accepted: up to {limits.max_decompressed_bytes}", 413
        )
    if not body and encoding == "protobuf":
        return Decoded([], {}, {})
    if body.startswith(_GZIP_MAGIC):
        raise Rejected(Reason.MALFORMED, "body: still gzip; send it packed once, with Content-Encoding: gzip")
    spans, intake = (decode_protobuf if encoding == "protobuf" else decode_json)(body, limits, project)
    return Decoded(spans, dict(intake.rejected), dict(intake.mended))
