"""How the span log lies on disk: segment files of framed records, each with its own checksums.

A segment is called after the position of its first record (``00000000000000000000.log``) and starts with a 16 byte
mark. A record is a 28 byte head and the body::

    magic u32 | head crc u32 | kind u32 | received_at f64 | length u32 | body crc u32

The head's checksum covers the record's position too, so neither a stale disk block nor a record that somebody sent
as the text of another one is ever taken for a record.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from groundwatch_collector.spans import Span

MARK = b"GWLOG001" + bytes(8)
KINDS = ("otlp_protobuf", "otlp_json", "feedback")
MAX_BODY_BYTES = 256 * 1024 * 1024  # a longer length in a head is damage, not a record

_HEAD = struct.Struct("<IIIdII")
_CHECKED = struct.Struct("<QIdII")  # position, kind, received_at, length, body crc
_MAGIC = 0x47575231
_MAGIC_BYTES = struct.pack("<I", _MAGIC)
_SEARCH_BYTES = 1024 * 1024

HEAD_BYTES = _HEAD.size


@dataclass(frozen=True, slots=True)
class LogRecord:
    position: int
    next_position: int  # where reading goes on after this record
    kind: str  # otlp_protobuf | otlp_json | feedback
    received_at: float  # Unix seconds
    body: bytes  # decompressed
    spans: Sequence[Span] | None = field(default=None, compare=False, repr=False)  # None: to be decoded


@dataclass(slots=True)
class Segment:
    """One file. ``size`` counts record bytes only, so positions go on without a gap from file to file."""

    path: Path
    base: int
    size: int
    last_received_at: float | None = None  # None: not known without reading

    @property
    def end(self) -> int:
        return self.base + self.size

    @property
    def file_bytes(self) -> int:
        return self.size + len(MARK)


def segment_path(directory: Path, base: int) -> Path:
    return directory / f"{base:020d}.log"


def list_segments(directory: Path) -> list[Segment]:
    """Every segment file in *directory*, oldest first; a file that vanishes meanwhile is left out."""
    found = []
    for path in directory.glob("*.log"):
        if path.stem.isdigit():
            try:
                size = max(0, path.stat().st_size - len(MARK))
            except FileNotFoundError:
                continue
            found.append(Segment(path, int(path.stem), size))
    found.sort(key=lambda segment: segment.base)
    for segment, following in pairwise(found):
        # A failed write that could not be cut off reaches beyond the next file's first record.
        segment.size = min(segment.size, following.base - segment.base)
    return found


def frame_head(position: int, kind: str, received_at: float, body: bytes) -> bytes:
    """What is written before *body* so that both are a record at *position*."""
    number = KINDS.index(kind) + 1
    body_crc = zlib.crc32(body)
    crc = zlib.crc32(_CHECKED.pack(position, number, received_at, len(body), body_crc))
    return _HEAD.pack(_MAGIC, crc, number, received_at, len(body), body_crc)


@dataclass(frozen=True, slots=True)
class _Head:
    kind: str
    received_at: float
    length: int
    body_crc: int


def _parse_head(raw: bytes, position: int) -> _Head | None:
    if len(raw) < HEAD_BYTES:
        return None
    magic, crc, number, received_at, length, body_crc = _HEAD.unpack_from(raw)
    if magic != _MAGIC or not 1 <= number <= len(KINDS) or length > MAX_BODY_BYTES:
        return None
    if crc != zlib.crc32(_CHECKED.pack(position, number, received_at, length, body_crc)):
        return None
    return _Head(KINDS[number - 1], received_at, length, body_crc)


def read_record(file: BinaryIO, segment: Segment, position: int) -> LogRecord | None:
    """The record at *position*, or None where none lies that is whole and right."""
    file.seek(position - segment.base + len(MARK))
    head = _parse_head(file.read(HEAD_BYTES), position)
    if head is None or position + HEAD_BYTES + head.length > segment.end:
        return None
    body = file.read(head.length)
    if len(body) != head.length or zlib.crc32(body) != head.body_crc:
        return None
    return LogRecord(position, position + HEAD_BYTES + head.length, head.kind, head.received_at, body)


def claimed_end(file: BinaryIO, segment: Segment, position: int) -> int | None:
    """Where the record at *position* ends by its own head, when the head is right and the file reaches that far."""
    file.seek(position - segment.base + len(MARK))
    head = _parse_head(file.read(HEAD_BYTES), position)
    end = position + HEAD_BYTES + head.length if head is not None else segment.end + 1
    return end if end <= segment.end else None


def next_whole_record(file: BinaryIO, segment: Segment, damaged_at: int) -> int | None:
    """The position of the first good record after the damage at *damaged_at*, or None when none follows."""
    file.seek(damaged_at - segment.base + len(MARK))
    head = _parse_head(file.read(HEAD_BYTES), damaged_at)
    start = damaged_at + 1
    if head is not None and damaged_at + HEAD_BYTES + head.length < segment.end:
        start = damaged_at + HEAD_BYTES + head.length  # only the body is bad: its length can be trusted
    for candidate in _magic_positions(file, segment, start):
        if read_record(file, segment, candidate) is not None:
            return candidate
    return None


def _magic_positions(file: BinaryIO, segment: Segment, start: int) -> Iterator[int]:
    while start < segment.end:
        file.seek(start - segment.base + len(MARK))
        block = file.read(_SEARCH_BYTES)
        at = block.find(_MAGIC_BYTES)
        while at != -1:
            yield start + at
            at = block.find(_MAGIC_BYTES, at + 1)
        if len(block) < _SEARCH_BYTES:
            return
        start += len(block) - len(_MAGIC_BYTES) + 1  # a magic may lie across two blocks
