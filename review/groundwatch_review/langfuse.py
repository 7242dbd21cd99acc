"""Candidates as dataset items, and verdicts as scores, in Langfuse: the outbox, sent by the tool's own client.

The client is a parameter: it holds address, keys and transport. Its texts of errors are not kept: they quote bodies.
"""

from __future__ import annotations

import hashlib
import json
import random
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from sqlalchemy import Connection, Engine, select

from groundwatch_collector.decision_store import committed_position, set_position
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import erased_traces
from groundwatch_review import outbox
from groundwatch_review.candidates import CandidatePolicy
from groundwatch_review.export import mark_exported, releasable
from groundwatch_review.formats import FORMATS, NAMESPACE, inert
from groundwatch_review.outbox import ITEM, Again, Entry, Never, OutboxPolicy
from groundwatch_scorer.judgement import AnnotatorKind
from groundwatch_scorer.tables import judgements

_SETTLED_SECONDS: Final = 300.0  # a judgement that is written now may get a lower number than one seen before it
_AGAIN: Final = frozenset({408, 409, 425, 429})
_KEYS: Final = frozenset({401, 403})


class Client(Protocol):
    """The parts of ``langfuse.api.LangfuseAPI`` that are used."""

    @property
    def dataset_items(self) -> Any: ...

    @property
    def datasets(self) -> Any: ...

    @property
    def scores(self) -> Any: ...


class KeysRefused(Exception):
    """The tool does not know these keys: nothing was sent, and nothing is given up."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What one run did. ``done`` counts what came of each entry, ``states`` what stands in the outbox after it."""

    done: Mapping[str, int]
    states: Mapping[str, int]
    held: Mapping[str, int]  # candidates that may not leave, by reason
    not_planned: int = 0  # too much waits already: a later run plans them

    @property
    def is_complete(self) -> bool:
        return not self.not_planned and not any(
            state in ("waiting", "removing") or state.startswith("failed") for state in self.states
        )


@dataclass(slots=True)
class Langfuse:
    """One project of Langfuse. *name* tells it from others in the outbox."""

    client: Client
    name: str
    _datasets: set[str] = field(default_factory=set)

    def put_item(self, row: Mapping[str, Any]) -> None:
        """Create or replace a dataset item; its dataset is made when it is not there."""
        if row["dataset_name"] not in self._datasets:
            self._have_dataset(row["dataset_name"])
        self._call(lambda once: self.client.dataset_items.create(**row, request_options=once))

    def remove_item(self, identifier: str) -> None:
        self._call(
            lambda once: self.client.dataset_items.delete(identifier, request_options=once), missing_is_fine=True
        )

    def put_score(self, score: Mapping[str, Any]) -> None:
        """Send one score. A body of one is taken whole or refused whole."""
        found = self._call(lambda once: self.client.scores.create(request=[dict(score)], request_options=once))
        if getattr(found, "rejected", 0):
            raise Never("refused")

    def _have_dataset(self, name: str) -> None:
        if (
            self._call(lambda once: self.client.datasets.get(name, request_options=once), missing_is_fine=True)
            is None
        ):
            self._call(lambda once: self.client.datasets.create(name=name, request_options=once))
        self._datasets.add(name)

    def _call(self, call: Callable[[Mapping[str, int]], Any], *, missing_is_fine: bool = False) -> Any:
        """The outbox tries again, not the client. Raises :class:`Again`, :class:`Never` or :class:`KeysRefused`."""
        try:
            return call({"max_retries": 0})
        except Exception as error:
            status = getattr(error, "status_code", None)
            if status == 404 and missing_is_fine:
                return None
            if status in _KEYS:
                raise KeysRefused(f"Langfuse refuses these keys (HTTP {status})") from None
            if isinstance(status, int) and 400 <= status < 500 and status not in _AGAIN:
                raise Never("refused") from None
            raise Again(_trouble(error, status)) from None


def _trouble(error: Exception, status: object) -> str:
    if isinstance(status, int):
        return "busy" if status in _AGAIN else "tool_failed"
    if not type(error).__module__.startswith(("httpx", "httpcore")):
        return "bad_reply"
    return "timeout" if "timeout" in type(error).__name__.lower() else "unreachable"


def send(
    engine: Engine,
    tool: Langfuse,
    now: Callable[[], float],
    *,
    policy: CandidatePolicy | None = None,
    holdout: bool = False,
    scores: bool = False,
    remove_many: bool = False,
    jitter: random.Random,
    outbox_policy: OutboxPolicy | None = None,
) -> Sent:
    """Have every releasable candidate in *tool* and no other; with *scores* also the verdicts on traces.

    HOLDOUT candidates go to a dataset of their own, and new ones only where *holdout* says so. Raises
    :class:`KeysRefused`, and :class:`outbox.TooManyRemovals` before anything is sent.
    """
    held: Counter[str] = Counter()
    rows = _rows(engine, now(), policy, held)
    digests = {name: _digest(row) for name, row in rows.items()}
    apart = set() if holdout else {name for name, row in rows.items() if row["metadata"]["split"] == "HOLDOUT"}
    held["holdout"] += len(apart)
    left = outbox.plan_items(
        engine,
        tool.name,
        {name: digest for name, digest in digests.items() if name not in apart},
        now(),
        outbox_policy,
        where_known={name: digests[name] for name in apart},
        remove_many=remove_many,
    )
    if scores:
        left += _plan_scores(engine, tool.name, now(), outbox_policy or OutboxPolicy())

    def one(entry: Entry) -> str | None:
        if entry.kind != ITEM:
            return _send_score(engine, tool, entry)
        if entry.state == "removing":
            tool.remove_item(entry.item)
            return ""
        row = rows.get(entry.item)
        if row is None:
            return None
        # Before it: a crash in between must not hide that it left. What was erased since the run began is not here.
        if not mark_exported(engine, [entry.item], now(), policy):
            return None
        tool.put_item(row)
        return _digest(row)

    done = outbox.drain(engine, tool.name, one, now, jitter=jitter, policy=outbox_policy)
    return Sent(
        dict(sorted(done.items())),
        outbox.states(engine, tool.name),
        {name: count for name, count in sorted(held.items()) if count},
        left,
    )


def _rows(
    engine: Engine, now: float, policy: CandidatePolicy | None, held: Counter[str]
) -> dict[str, dict[str, Any]]:
    documents = releasable(engine, now, policy, held)
    return {one["candidate_id"]: inert(FORMATS["langfuse"].row(one), Counter()) for one in documents}


def _digest(row: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(row, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _plan_scores(engine: Engine, destination: str, now: float, policy: OutboxPolicy) -> int:
    """Plan the verdicts since the last run; return 1 when more of them wait for the next one."""
    place = f"scores:{destination}"[:64]
    with engine.begin() as connection:
        room = max(0, policy.most_waiting - outbox.waiting(connection, destination, outbox.SCORE))
        after = committed_position(connection, place)
        new = judgements.c.id > after, judgements.c.judged_at < now - _SETTLED_SECONDS
        ids = list(connection.scalars(select(judgements.c.id).where(*new).order_by(judgements.c.id).limit(room + 1)))
        outbox.plan_scores(connection, destination, [str(one) for one in ids[:room]], now)
        if ids[:room]:
            set_position(connection, ids[:room][-1], place)
    return int(len(ids) > room)


def _send_score(engine: Engine, tool: Langfuse, entry: Entry) -> str | None:
    with reader(engine).connect() as connection:
        score = _score(connection, int(entry.item))
    if score is None:
        return None
    tool.put_score(score)
    return "sent"


def _score(connection: Connection, identifier: int) -> dict[str, Any] | None:
    """A verdict without a word of the trace, under an id that a repeated sending shares. None: erased or gone."""
    row = connection.execute(select(judgements).where(judgements.c.id == identifier)).mappings().one_or_none()
    if row is None or connection.scalar(
        select(erased_traces.c.trace_id).where(erased_traces.c.trace_id == row["trace_id"])
    ):
        return None
    by_person = row["annotator_kind"] == AnnotatorKind.HUMAN
    same = f"{row['trace_id']}:{row['criterion']}:{row['identifier']}:{row['judged_at']!r}"
    return {
        "id": str(uuid.uuid5(NAMESPACE, same)),
        "traceId": row["trace_id"],
        "name": f"groundwatch.{row['criterion']}",
        "value": row["label"],
        "dataType": "CATEGORICAL",
        "timestamp": datetime.fromtimestamp(row["judged_at"], UTC).isoformat(),
        "metadata": {
            "annotator_kind": str(row["annotator_kind"]),
            **({} if by_person else {"judge": row["identifier"]}),
            **({} if row["score"] is None else {"score": row["score"]}),
        },
    }
