"""Recorded OTLP on disk: JSON lines of the OpenTelemetry Collector's file exporter, and protobuf."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Encoding = Literal["protobuf", "json"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """One export request out of a file."""

    where: str  # file and line or message number, for messages to people
    encoding: Encoding
    body: bytes


class Unreadable(ValueError):
    """The file as a whole cannot be read; the message names it and says what is accepted."""


def read(path: Path, max_bytes: int) -> Iterator[Recorded]:
    """Yield the export requests in *path*. Raises :class:`Unreadable` when it is no recording at all."""
    name = path.name.removesuffix(".gz")
    if name.endswith((".jsonl", ".json", ".ndjson")):
        yield from _json(path, max_bytes)
    elif name.endswith((".pb", ".bin", ".proto", ".otlp")):
        yield from _protobuf(path, max_bytes)
    else:
        raise Unreadable(f"{path}: unknown kind of file; accepted: *.jsonl, *.json, *.pb, each also with .gz")


def _json(path: Path, max_bytes: int) -> Iterator[Recorded]:
    try:
        with _open(path) as file:
            first = file.read(max_bytes + 1)
            if len(first) <= max_bytes and _is_one_document(first):
                yield Recorded(str(path), "json", first)
                return
        with _open(path) as file:
            yield from _lines(file, path, max_bytes)
    except (OSError, EOFError) as error:
        raise Unreadable(f"{path}: cannot be read ({error})") from error


def _lines(file: gzip.GzipFile, path: Path, max_bytes: int) -> Iterator[Recorded]:
    number = 0
    while line := file.readline(max_bytes + 1):
        number += 1
        whole = line
        while not line.endswith(b"\n") and (line := file.readline(max_bytes + 1)):
            pass  # the rest of a line beyond the bound is read and left; the body's size makes the limit speak
        if whole.strip():
            yield Recorded(f"{path}:{number}", "json", whole.strip())


def _is_one_document(body: bytes) -> bool:
    """A pretty-printed single document, as opposed to one document per line."""
    try:
        return isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        return False


def _protobuf(path: Path, max_bytes: int) -> Iterator[Recorded]:
    try:
        with _open(path) as file:
            body = file.read(max_bytes * 64)
    except (OSError, EOFError) as error:
        raise Unreadable(f"{path}: cannot be read ({error})") from error
    messages = _length_prefixed(body)
    if messages is None:
        yield Recorded(str(path), "protobuf", body)
        return
    for number, message in enumerate(messages, 1):
        yield Recorded(f"{path}#{number}", "protobuf", message)


def _length_prefixed(body: bytes) -> list[bytes] | None:
    """The file exporter's protobuf form: each message behind its size as four big-endian bytes."""
    messages, at = [], 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 4], "big")
        if size == 0 or at + 4 + size > len(body):
            return None
        messages.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    return messages or None


def _open(path: Path) -> gzip.GzipFile:
    with path.open("rb") as probe:
        zipped = probe.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else path.open("rb")  # type: ignore[return-value]
