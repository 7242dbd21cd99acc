"""Write what people have read and released to a file. Everything that stays behind is counted by reason."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Row, select, update

from groundwatch_collector.storage import reader
from groundwatch_review import candidates as store
from groundwatch_review import second_person
from groundwatch_review.candidates import CandidatePolicy
from groundwatch_review.desk import Refused
from groundwatch_review.formats import FORMATS, Format, format_named, render
from groundwatch_review.redaction import redact_candidate
from groundwatch_review.schema import problems
from groundwatch_review.tables import candidates, reviews

OWN: Final = "jsonl"
EXPORTER_VERSION: Final = "groundwatch-jsonl-1"

HELD: Final = (
    "blocked",  # redaction is in doubt, or the failure did not reproduce after it
    "rejected",
    "unconfirmed",  # no person has read the redacted text yet
    "second_person",  # of the hold-out set, and released by one person only
    "failure_not_confirmed",  # the verdict on the trace was taken back
    "consent_unknown",
    "tombstoned",
    "expired",
    "rescan",  # today's rules find something that those of its day did not
    "schema",
    "merged_into_family",  # another candidate of its family stands for it, with support
    "holdout",  # no file for the hold-out set was named
)
"""Every reason for which a candidate stays behind."""


@dataclass(frozen=True, slots=True)
class ExportReport:
    """``written`` counts lines of the main file, ``holdout_written`` those of the hold-out file."""

    written: int
    held: Mapping[str, int]
    holdout_written: int = 0
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Ready:
    candidate_id: str
    document: dict[str, Any]


def export(
    engine: Engine,
    path: Path,
    now: float,
    *,
    layout: str = OWN,
    holdout: Path | None = None,
    policy: CandidatePolicy | None = None,
) -> ExportReport:
    """Write every releasable DEV candidate to *path*, and HOLDOUT ones to *holdout* (held when it is None).

    *layout* is :data:`OWN`, a name of :data:`groundwatch_review.formats.FORMATS`, or ``module:function`` of your own.

    Each file appears whole or not at all, with ``<name>.manifest.json`` beside it. The same candidates give the same
    bytes. *policy* fills in consent and licence where they were not known. Raises :class:`Refused` for a path that is
    no plain file name in an existing folder.
    """
    chosen = None if layout == OWN else format_named(layout)
    if layout != OWN and chosen is None:
        accepted = ", ".join((OWN, *FORMATS))
        raise Refused(f"format {layout[:40]!r} is not known; accepted: {accepted}, or module:function of your own")
    targets = [_checked(target) for target in (path, holdout) if target is not None]
    held: Counter[str] = Counter()
    ready = _one_per_family(_releasable(engine, now, policy, held), held)
    leaving = [item for item in ready if item.document["split"] == "DEV" or holdout is not None]
    held["holdout"] += len(ready) - len(leaving)
    # Before it: a crash in between must not hide that something left. What was erased meanwhile is not here.
    here = set(mark_exported(engine, [item.candidate_id for item in leaving], now, policy))
    parts = {
        split: [item for item in leaving if item.document["split"] == split and item.candidate_id in here]
        for split in ("DEV", "HOLDOUT")
    }
    for target, items in zip(targets, parts.values(), strict=False):
        _write_with_manifest(target, items, layout, chosen)
    return ExportReport(
        written=len(parts["DEV"]),
        held={reason: count for reason, count in sorted(held.items()) if count},
        holdout_written=len(parts["HOLDOUT"]),
        files=tuple(str(target) for target in targets),
    )


def export_jsonl(engine: Engine, path: Path, now: float, **options: Any) -> ExportReport:
    """:func:`export` in our own format, whose lines are the whole candidates."""
    return export(engine, path, now, layout=OWN, **options)


# What may leave


def releasable(
    engine: Engine, now: float, policy: CandidatePolicy | None, held: Counter[str]
) -> list[dict[str, Any]]:
    """Candidates of both splits that may leave now, one a family; *held* counts the others by reason."""
    return [item.document for item in _one_per_family(_releasable(engine, now, policy, held), held)]


def _releasable(engine: Engine, now: float, policy: CandidatePolicy | None, held: Counter[str]) -> list[_Ready]:
    query = (
        select(candidates, reviews.c.decision)
        .outerjoin(reviews, reviews.c.trace_id == candidates.c.trace_id)
        .order_by(candidates.c.created_at, candidates.c.candidate_id)
    )
    ready: list[_Ready] = []
    families: Counter[str] = Counter()
    with reader(engine).connect() as connection:
        ticks = second_person.ticks(connection)
        for row in connection.execute(query):
            document = store.read(row)
            store.apply_policy(document, policy)
            reason = _reason(row, document, now)
            if not reason and ticks.is_missing(document):
                reason = "second_person"
            counts = document["review"]["status"] != "REJECTED" and row.decision == "confirmed"
            families[document["family"]["family_id"]] += counts
            if reason:
                held[reason] += 1
            else:
                ready.append(_Ready(row.candidate_id, document))
    for item in ready:
        item.document["family"]["support"] = max(1, families[item.document["family"]["family_id"]])
    return ready


def _reason(row: Row[Any], document: dict[str, Any], now: float) -> str:
    """Why this candidate stays, or "". Columns and document must agree: either one alone can hold it."""
    review, governance = document["review"], document["governance"]
    expires = governance.get("expires_at")
    checks = {
        "blocked": "BLOCKED" in (row.redaction_status, document["redaction"]["status"]),
        "rejected": review["status"] == "REJECTED",
        "unconfirmed": not row.redaction_confirmed
        or review["status"] != "REVIEWED"
        or not review["redaction_confirmed"],
        "failure_not_confirmed": row.decision != "confirmed",
        "consent_unknown": governance["consent"] == "UNKNOWN",
        "tombstoned": bool(governance.get("tombstoned")),
        "expired": bool(expires) and datetime.fromisoformat(expires) <= datetime.fromtimestamp(now, UTC),
    }
    found = next((reason for reason, holds in checks.items() if holds), "")
    if found:
        return found
    if not governance["export_allowed"] or problems(document):
        return "schema"
    return "" if redact_candidate(document).document == document else "rescan"


def _one_per_family(ready: list[_Ready], held: Counter[str]) -> list[_Ready]:
    """The oldest stands for its family: two hundred questions about one broken page are one test, not two hundred."""
    first: dict[str, _Ready] = {}
    for item in ready:
        first.setdefault(item.document["family"]["family_id"], item)
    held["merged_into_family"] += len(ready) - len(first)
    return sorted(first.values(), key=lambda item: item.candidate_id)


# Files


def _line(document: dict[str, Any]) -> str:
    """Canonical JSON on one line, with a digest of the rest inside. Line breaks of other alphabets are escaped."""
    document["provenance"]["exporter_version"] = EXPORTER_VERSION
    document["provenance"].pop("content_sha256", None)
    document["provenance"]["content_sha256"] = hashlib.sha256(canonical(document)).hexdigest()
    return (
        canonical(document)
        .decode()
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
        .replace("\x85", "\\u0085")
    )


def canonical(document: Mapping[str, Any]) -> bytes:
    """Sorted keys, no spaces, UTF-8: what the digest is taken over (without ``provenance.content_sha256``)."""
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _body(items: list[_Ready], chosen: Format | None) -> tuple[bytes, Mapping[str, int]]:
    if chosen is None:
        return "".join(_line(item.document) + "\n" for item in items).encode(), {}
    text, inert = render(chosen, [item.document for item in items])
    return text.encode(), inert


def _write_with_manifest(target: Path, items: list[_Ready], layout: str, chosen: Format | None) -> None:
    """*chosen* is the format of *layout*; None: our own."""
    body, inert = _body(items, chosen)
    manifest = {
        "file": target.name,
        "format": "urn:groundwatch:regression-candidate:1" if layout == OWN else layout,
        **({"made_inert": dict(sorted(inert.items()))} if layout != OWN else {}),
        "exporter_version": EXPORTER_VERSION,
        "lines": len(items),
        "bytes": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
        "candidates": [item.candidate_id for item in items],
    }
    _write(target, body)
    _write(manifest_path(target), json.dumps(manifest, indent=2, sort_keys=True).encode() + b"\n")


def manifest_path(path: Path) -> Path:
    """Where the manifest of an exported file stands."""
    return path.with_name(f"{path.name}.manifest.json")


def _checked(path: Path) -> Path:
    if "\x00" in str(path) or path.name in ("", ".", "..") or ".." in path.parts:
        raise Refused("the export path is not a plain file name in a folder")
    if not path.parent.is_dir():
        raise Refused(f"the folder {str(path.parent)!r} does not exist")
    for target in (path, manifest_path(path)):
        if target.is_symlink() or (target.exists() and not target.is_file()):
            raise Refused(f"{str(target)!r} is a link or not a file; accepted: a new or plain file")
    return path


def _write(path: Path, body: bytes) -> None:
    """Write beside, make durable, then rename: a reader never sees half a file, and no link is followed."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def mark_exported(engine: Engine, ids: Sequence[str], now: float, policy: CandidatePolicy | None = None) -> list[str]:
    """Remember that these leave for the first time, and under which rights: an erasure then names them.

    Return those that are here: one that was erased meanwhile must not leave.
    """
    with engine.begin() as connection:
        return [candidate_id for candidate_id in ids if _mark(connection, candidate_id, now, policy)]


def _mark(connection: Connection, candidate_id: str, now: float, policy: CandidatePolicy | None) -> bool:
    here = candidates.c.candidate_id == candidate_id
    row = connection.execute(select(candidates).where(here).with_for_update()).one_or_none()
    if row is None:
        return False
    document = store.read(row)
    store.apply_policy(document, policy)
    values = {"exported_at": now if row.exported_at is None else row.exported_at, "document": store.dump(document)}
    connection.execute(update(candidates).where(here).values(**values))
    return True
