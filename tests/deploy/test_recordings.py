"""What the Collector's file exporter writes can be read back, and other files are refused by name."""

from __future__ import annotations

import gzip
import json

import pytest

from groundwatch_deploy.recordings import Unreadable, read

LINE = b'{"resourceSpans":[]}'


def found(path, max_bytes=1000):
    return [(r.encoding, r.body) for r in read(path, max_bytes)]


def test_one_request_per_line(tmp_path):
    path = tmp_path / "traces.jsonl"
    path.write_bytes(LINE + b"\n\n" + LINE + b"\n")
    assert found(path) == [("json", LINE), ("json", LINE)]
    assert [r.where for r in read(path, 1000)] == [f"{path}:1", f"{path}:3"]


def test_a_single_pretty_printed_document(tmp_path):
    path = tmp_path / "traces.json"
    path.write_text(json.dumps({"resourceSpans": []}, indent=2))
    assert len(found(path)) == 1


def test_gzip_is_recognised_by_content(tmp_path):
    path = tmp_path / "traces.jsonl.gz"
    path.write_bytes(gzip.compress(LINE + b"\n" + LINE))
    assert len(found(path)) == 2


def test_protobuf_alone_and_behind_sizes(tmp_path):
    alone, several = tmp_path / "one.pb", tmp_path / "many.pb"
    alone.write_bytes(b"\x0a\x02\x12\x00")
    several.write_bytes(b"\x00\x00\x00\x04\x0a\x02\x12\x00" * 3)
    assert found(alone) == [("protobuf", b"\x0a\x02\x12\x00")]
    assert found(several) == [("protobuf", b"\x0a\x02\x12\x00")] * 3


def test_a_line_beyond_the_bound_does_not_hide_the_next(tmp_path):
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b'{"x":"' + b"a" * 5000 + b'"}\n' + LINE + b"\n")
    bodies = [body for _encoding, body in found(path, max_bytes=100)]
    assert len(bodies) == 2
    assert len(bodies[0]) > 100
    assert bodies[1] == LINE


def test_other_files_are_refused_by_name(tmp_path):
    path = tmp_path / "traces.txt"
    path.write_bytes(b"")
    with pytest.raises(Unreadable, match=r"traces\.txt: unknown kind of file; accepted: \*\.jsonl"):
        found(path)


@pytest.mark.parametrize("name", ["gone.jsonl", "cut.jsonl.gz"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    path = tmp_path / name
    if name.startswith("cut"):
        path.write_bytes(gzip.compress(LINE * 100)[:20])
    with pytest.raises(Unreadable, match=f"{name}: cannot be read"):
        found(path)
