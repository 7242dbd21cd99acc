"""Whether a page shows raw or redacted texts, in one place; raw ones are in the audit trail before they leave."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from ..audit import Action, AuditLog
from ..queries import TraceRecord
from .access import principal_of
from .redacted import redacted_lines, redacted_record


class RawViews:
    """Every page that holds texts of a trace asks here."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def record(self, request: Request, record: TraceRecord, *, raw: bool) -> TraceRecord:
        """*record* as it is, with an entry in the trail, or redacted."""
        if not raw:
            return redacted_record(record)
        self._audit.append(principal_of(request).actor, Action.RAW_VIEW, record.row.trace_id)
        return record

    def questions(self, request: Request, rows: Iterable[Any]) -> list[Any]:
        """Rows of a list, records with a ``query``, with it redacted; where nobody logs in, as they are."""
        listed = list(rows)
        if principal_of(request).everybody:
            if any(row.query is not None for row in listed):
                self._audit.append(principal_of(request).actor, Action.RAW_LIST, detail=f"{len(listed)} rows")
            return listed
        shown = redacted_lines([row.query for row in listed])
        return [replace(row, query=query) for row, query in zip(listed, shown, strict=True)]
