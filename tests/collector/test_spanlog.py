"""The span log: what it acknowledged survives a crash, a full disk and damage; nothing is skipped silently."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundwatch_collector.log_segments import HEAD_BYTES, MARK, frame_head, list_segments
from groundwatch_collector.spanlog import LogError, LogFailed, LogFull, LogLocked, SpanLog

DAY = 86400.0


class Clock:
    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


def bodies(log) -> list[bytes]:
    return [record.body for record in log.records()]


def put(log: SpanLog, *contents: bytes) -> list[int]:
    return [log.append("otlp_json", content).result(10) for content in contents]


def last_file(directory: Path) -> Path:
    return max(directory.glob("*.log"))


def test_records_come_back_in_order_with_what_was_said_of_them(tmp_path):
    clock = Clock()
    with SpanLog(tmp_path / "log", now=clock) as log:
        first = log.append("otlp_protobuf", b"one").result(10)
        second = log.append("feedback", b"").result(10)
        records = log.read(0, 10)
    assert [(r.position, r.kind, r.received_at, r.body) for r in records] == [
        (first, "otlp_protobuf", clock.time, b"one"),
        (second, "feedback", clock.time, b""),
    ]
    assert records[0].next_position == second
    assert records[1].next_position == log.end_position


def test_reading_goes_on_where_it_stopped_across_segments_and_restarts(tmp_path):
    expected = [b"%d" % n * 40 for n in range(50)]
    with SpanLog(tmp_path, segment_bytes=400) as log:
        put(log, *expected)
        assert log.segment_count > 3
    with SpanLog(tmp_path, segment_bytes=400) as log:
        found, position = [], 0
        while records := log.read(position, 7):
            found += [record.body for record in records]
            position = records[-1].next_position
        assert found == expected
        assert position == log.end_position
        assert log.damage == {}


def test_a_read_is_bounded_in_records_and_bytes(tmp_path):
    with SpanLog(tmp_path) as log:
        put(log, b"x" * 100, b"y" * 100, b"z" * 100)
        assert len(log.read(0, 2)) == 2
        assert len(log.read(0, 9, limit_bytes=200)) == 2
        assert len(log.read(0, 9, limit_bytes=1)) == 1  # always one, or nobody would ever get past it


def test_an_empty_log_has_nothing_to_read_or_wait_for(tmp_path):
    with SpanLog(tmp_path) as log:
        assert (log.read(0, 10), log.end_position, log.start_position) == ([], 0, 0)
        assert not log.wait(0, timeout=0)


def test_wait_returns_when_a_record_becomes_durable(tmp_path):
    with SpanLog(tmp_path) as log:
        seen: list[bool] = []
        waiter = threading.Thread(target=lambda: seen.append(log.wait(0, timeout=20)))
        waiter.start()
        put(log, b"one")
        waiter.join(20)
        assert seen == [True]
        assert not log.wait(log.end_position, timeout=0)


def test_closing_writes_what_was_handed_over_and_wakes_who_waits(tmp_path):
    log = SpanLog(tmp_path, group_seconds=0.05)
    waiter = threading.Thread(target=log.wait, args=(10**9, 60))
    waiter.start()
    futures = [log.append("feedback", b"%d" % n) for n in range(20)]
    log.close()
    log.close()
    waiter.join(10)
    assert not waiter.is_alive()
    assert all(future.done() for future in futures)
    with pytest.raises(LogFailed, match="closed"):
        log.append("feedback", b"late")
    with SpanLog(tmp_path) as log:
        assert len(bodies(log)) == 20


def test_appends_of_many_threads_all_get_their_own_place(tmp_path):
    with SpanLog(tmp_path, segment_bytes=2000) as log:
        positions: list[int] = []
        threads = [
            threading.Thread(target=lambda name=name: positions.extend(put(log, *[b"%d" % name] * 50)))
            for name in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(positions) == [record.position for record in log.records()]
        assert log.appended_records == 400


def test_many_appends_share_a_sync(tmp_path):
    syncs: list[float] = []
    with SpanLog(tmp_path, group_seconds=0.02) as log:
        log.on_sync = syncs.append
        for future in [log.append("feedback", b"x") for _ in range(500)]:
            future.result(10)
    assert len(syncs) < 50


def test_an_unknown_kind_is_refused_by_name(tmp_path):
    with SpanLog(tmp_path) as log, pytest.raises(ValueError, match="found 'logs', accepted: otlp_protobuf"):
        log.append("logs", b"")


def test_two_processes_cannot_write_one_log(tmp_path):
    with SpanLog(tmp_path), pytest.raises(LogLocked, match=f"in use by process {os.getpid()}"):
        SpanLog(tmp_path)
    SpanLog(tmp_path).close()


def test_a_log_is_read_while_another_process_writes_it(tmp_path):
    with SpanLog(tmp_path, segment_bytes=100) as log:
        put(log, b"a" * 80, b"b" * 80)
        reader = SpanLog.open_read_only(tmp_path)
        assert bodies(reader) == [b"a" * 80, b"b" * 80]
        put(log, b"c")
        assert bodies(reader)[-1] == b"c"
        with last_file(tmp_path).open("ab") as file:
            file.write(b"half a rec")  # the writer is in the middle of it
        assert len(bodies(reader)) == 3
        assert reader.damage == {}


def test_a_position_beyond_the_end_is_an_error_until_the_log_skips_to_it(tmp_path):
    """The reader's memory survived and the log's files did not: new records must not land where nobody reads."""
    with SpanLog(tmp_path) as log:
        put(log, b"old")
        with pytest.raises(LogError, match="beyond the end"):
            log.read(5000, 1)
        log.skip_to(5000)
        put(log, b"new")
        assert [(r.position, r.body) for r in log.read(5000, 9)] == [(5000, b"new")]
        log.skip_to(1)
        put(log, b"newer")
    with SpanLog(tmp_path) as log:
        assert bodies(log) == [b"old", b"new", b"newer"]


# Crash.


def test_a_last_record_that_is_whole_and_damaged_is_kept_as_a_counted_loss(tmp_path):
    with SpanLog(tmp_path) as log:
        put(log, b"kept", b"acknowledged")
        start, end = HEAD_BYTES + len(b"kept"), log.end_position
    damage(last_file(tmp_path), -3)
    for _ in range(2):
        with SpanLog(tmp_path) as log:
            assert (log.torn_bytes, log.end_position) == (0, end)
            assert (bodies(log), log.damage) == ([b"kept"], {start: end - start})
    with SpanLog(tmp_path) as log:
        put(log, b"after")
        assert (bodies(log), log.damage) == ([b"kept", b"after"], {start: end - start})


def test_a_tail_torn_at_any_byte_is_cut_and_writing_goes_on(tmp_path):
    with SpanLog(tmp_path) as log:
        put(log, b"kept")
        whole = last_file(tmp_path).stat().st_size
        put(log, b"torn away")
    content = last_file(tmp_path).read_bytes()
    for size in range(whole, len(content)):
        last_file(tmp_path).write_bytes(content[:size])
        with SpanLog(tmp_path) as log:
            assert log.torn_bytes == size - whole
            put(log, b"next")
            assert bodies(log) == [b"kept", b"next"]
            assert log.damage == {}


def test_a_tail_of_zeros_is_cut(tmp_path):
    """Some file systems leave zeros where the length was written and the bytes were not."""
    with SpanLog(tmp_path) as log:
        put(log, b"kept")
    with last_file(tmp_path).open("ab") as file:
        file.write(bytes(5000))
    with SpanLog(tmp_path) as log:
        assert (bodies(log), log.torn_bytes) == ([b"kept"], 5000)


@pytest.mark.parametrize("size", range(len(MARK)))
def test_a_segment_that_was_only_begun_is_begun_again(tmp_path, size):
    with SpanLog(tmp_path) as log:
        put(log, b"kept")
        end = log.end_position
    (tmp_path / f"{end:020d}.log").write_bytes(MARK[:size])
    with SpanLog(tmp_path) as log:
        assert put(log, b"next") == [end]
        assert bodies(log) == [b"kept", b"next"]


def test_a_log_of_another_format_is_refused(tmp_path):
    with SpanLog(tmp_path) as log:
        put(log, b"kept")
    path = last_file(tmp_path)
    path.write_bytes(b"GWLOG999" + path.read_bytes()[8:])
    with pytest.raises(LogError, match="format b'999' found"):
        SpanLog(tmp_path)
    path.write_bytes(MARK + path.read_bytes()[len(MARK) :])
    SpanLog(tmp_path).close()  # the lock was given back


WRITER = """
import sys, threading
from pathlib import Path
from groundwatch_collector.spanlog import SpanLog

log = SpanLog(Path(sys.argv[1]), segment_bytes=20_000, group_seconds=0.001)
out = threading.Lock()

def write(name):
    for n in range(10**9):
        text = f"{sys.argv[2]}-{name}-{n}-" + "x" * (n * 37 % 3000)
        position = log.append("otlp_json", text.encode()).result()
        with out:
            print(position, text[:text.rindex("-")], flush=True)

for name in range(4):
    threading.Thread(target=write, args=(name,), daemon=True).start()
threading.Event().wait()
"""


def test_after_kill_9_every_acknowledged_record_is_there_once(tmp_path):
    acknowledged: dict[str, str] = {}
    for round_ in range(5):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(round_)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            lines = [process.stdout.readline() for _ in range(40 + 61 * round_)]
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
        for position, name in (line.split() for line in lines if line.endswith("\n")):
            acknowledged[name] = position
    with SpanLog(tmp_path) as log:
        found = {(record.position, record.body.decode().rpartition("-")[0]) for record in log.records()}
        assert log.damage == {}
    assert len(acknowledged) > 500
    assert {(int(position), name) for name, position in acknowledged.items()} <= found
    assert len({name for _, name in found}) == len(found)


# Damage.


def damage(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("at", range(HEAD_BYTES + 10))
def test_a_damaged_record_is_skipped_and_counted_at_any_byte(tmp_path, at):
    with SpanLog(tmp_path) as log:
        put(log, b"first here", b"other here", b"third here")
    damage(last_file(tmp_path), len(MARK) + HEAD_BYTES + 10 + at)
    size = HEAD_BYTES + 10
    with SpanLog(tmp_path) as log:
        put(log, b"next")
        assert bodies(log) == [b"first here", b"third here", b"next"]
        assert bodies(log) == [b"first here", b"third here", b"next"]
        assert (log.damage, log.torn_bytes) == ({size: size}, 0)


def test_damage_at_the_end_of_an_old_segment_does_not_stop_the_reader(tmp_path):
    with SpanLog(tmp_path, segment_bytes=50) as log:
        put(log, b"a" * 40, b"b" * 40, b"c" * 40)
    damage(min(tmp_path.glob("*.log")), len(MARK) + HEAD_BYTES + 3)
    with SpanLog(tmp_path) as log:
        assert bodies(log) == [b"b" * 40, b"c" * 40]
        assert sum(log.damage.values()) == HEAD_BYTES + 40


def test_a_reader_does_not_spin_on_damage_that_nothing_follows(tmp_path):
    with SpanLog(tmp_path) as log:
        put(log, b"kept", b"lost")
        damage(last_file(tmp_path), len(MARK) + 2 * HEAD_BYTES + 4 + 1)
        position = log.read(0, 9)[-1].next_position
        assert (log.read(position, 9), log.wait(position, timeout=0)) == ([], False)
        assert log.wait(0, timeout=0)  # for others there is still something to read
        put(log, b"next")
        assert log.wait(position, timeout=0)
        assert [record.body for record in log.read(position, 9)] == [b"next"]


def test_a_file_missing_from_the_middle_is_counted(tmp_path):
    with SpanLog(tmp_path, segment_bytes=50) as log:
        put(log, b"a" * 40, b"b" * 40, b"c" * 40)
    sorted(tmp_path.glob("*.log"))[1].unlink()
    reader = SpanLog.open_read_only(tmp_path)
    assert bodies(reader) == [b"a" * 40, b"c" * 40]
    assert reader.damage == {HEAD_BYTES + 40: HEAD_BYTES + 40}


def test_a_record_sent_as_text_is_never_taken_for_a_record(tmp_path):
    inside = frame_head(0, "feedback", 1.0, b"forged") + b"forged"
    with SpanLog(tmp_path) as log:
        put(log, b"first", inside * 3, b"last")
    damage(last_file(tmp_path), len(MARK) + 2 * HEAD_BYTES + 5 + len(inside) - 1)
    with SpanLog(tmp_path) as log:
        assert bodies(log) == [b"first", b"last"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=30), min_size=1, max_size=6), st.data())
def test_no_damage_makes_up_a_record_or_stops_the_log(tmp_path_factory, contents, data):
    directory = tmp_path_factory.mktemp("log")
    with SpanLog(directory, segment_bytes=80) as log:
        put(log, *contents)
    for path in directory.glob("*.log"):
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(0, 2))):
            content[data.draw(st.integers(5, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.integers(8, len(content)))])
    try:
        log = SpanLog(directory, segment_bytes=80)
    except LogError as error:
        assert "format" in str(error)
        return
    with log:
        log.skip_to(10_000)
        put(log, b"after")
        found = bodies(log)
    assert found[-1] == b"after"
    assert all(body in contents for body in found[:-1])


# Room.


@contextlib.contextmanager
def disk_with_room_for(size: int) -> Iterator[None]:
    """No file can grow beyond *size*: the kernel refuses writes half-way, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_fails_the_append_and_the_log_recovers_without_a_restart(tmp_path):
    with SpanLog(tmp_path) as log:
        put(log, b"before")
        with disk_with_room_for(last_file(tmp_path).stat().st_size + 40):
            with pytest.raises(LogFull) as caught:
                put(log, b"x" * 100)
            assert caught.value.cause == "no_space"
            assert "refused a write" in log.trouble
        put(log, b"after")
        assert log.trouble == ""
        assert bodies(log) == [b"before", b"after"]
        assert log.failures["no_space"] == 1
        assert log.pending_bytes == 0
    with SpanLog(tmp_path) as log:
        assert bodies(log) == [b"before", b"after"]


def test_a_log_in_trouble_finds_out_by_itself_that_the_disk_has_room_again(tmp_path, monkeypatch):
    monkeypatch.setattr("groundwatch_collector.spanlog._PROBE_SECONDS", 0.02)
    with SpanLog(tmp_path) as log:
        put(log, b"before")
        with disk_with_room_for(last_file(tmp_path).stat().st_size + 40), pytest.raises(LogFull):
            put(log, b"x" * 100)
        recovered = threading.Event()
        log.on_sync = lambda _seconds: recovered.set()
        assert recovered.wait(20)
        put(log, b"after")
        assert bodies(log) == [b"before", b"after"]


def test_a_new_segment_that_finds_no_room_fails_only_its_appends(tmp_path):
    with SpanLog(tmp_path, segment_bytes=10) as log:
        put(log, b"before")
        with disk_with_room_for(8), pytest.raises(LogFull):
            put(log, b"during")
        put(log, b"after")
        assert bodies(log) == [b"before", b"after"]


def test_a_failed_sync_moves_to_a_new_file(tmp_path, monkeypatch):
    """After a failed sync the kernel may call lost pages clean; only a new file can be trusted."""
    calls: list[int] = []

    def failing_once(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 1:
            raise OSError(5, "Input/output error")

    with SpanLog(tmp_path) as log:
        put(log, b"before")
        monkeypatch.setattr("groundwatch_collector.spanlog.sync_file", failing_once)
        with pytest.raises(LogFailed) as caught:
            put(log, b"lost")
        assert (caught.value.cause, isinstance(caught.value, LogFull)) == ("io_error", False)
        put(log, b"after")
        assert (bodies(log), log.segment_count) == ([b"before", b"after"], 2)


def test_a_failed_write_that_was_not_cut_off_is_not_read_twice(tmp_path):
    with SpanLog(tmp_path, segment_bytes=10) as log:
        put(log, b"one", b"two")
    first = min(tmp_path.glob("*.log"))
    with first.open("ab") as file:
        file.write(frame_head(HEAD_BYTES + 3, "otlp_json", 1.0, b"lost") + b"lost")
    assert next(s.end for s in list_segments(tmp_path)) == HEAD_BYTES + 3
    with SpanLog(tmp_path) as log:
        assert bodies(log) == [b"one", b"two"]


def test_at_its_bound_the_log_refuses_until_something_is_decided(tmp_path):
    with SpanLog(tmp_path, segment_bytes=100, max_bytes=1000) as log:
        positions = []
        with pytest.raises(LogFull, match="of 1000 bytes"):
            for _ in range(100):
                positions += put(log, b"x" * 72)
        assert log.total_bytes <= 1000
        assert "of 1000 bytes" in log.trouble
        with pytest.raises(LogFull):
            log.append("feedback", b"x" * 72)
        assert log.failures["bound"] == 2
        log.trim(positions[2])
        put(log, b"y" * 72)
        assert log.trouble == ""
        assert log.start_position == positions[2]


def test_an_append_makes_its_own_room_from_what_was_decided(tmp_path):
    clock = Clock()
    with SpanLog(tmp_path, segment_bytes=100, max_bytes=1000, now=clock) as log:
        put(log, *[b"x" * 72] * 4)
        log.trim(log.end_position)
        put(log, *[b"y" * 72] * 4)
        log.trim(0)  # a low position never goes back
        put(log, b"z" * 500)
        assert bodies(log)[-1] == b"z" * 500


def test_appends_that_wait_for_the_disk_have_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr("groundwatch_collector.spanlog._PENDING_BYTES", 300)
    with SpanLog(tmp_path, group_seconds=0.3) as log:
        put(log, b"starts the group wait")
        log.append("feedback", b"x" * 200)
        with pytest.raises(LogFull) as caught:
            log.append("feedback", b"x" * 200)
        assert caught.value.cause == "pending"


def test_trim_deletes_old_decided_segments_and_never_an_undecided_one(tmp_path):
    clock = Clock()
    with SpanLog(tmp_path, segment_bytes=100, max_age_seconds=10 * DAY, now=clock) as log:
        positions = []
        for _ in range(5):
            positions += put(log, b"x" * 72)
            clock.time += DAY
        assert log.trim(positions[3], clock.time) == 0  # young
        clock.time += 7 * DAY
        assert log.trim(positions[3] - 1, clock.time) == 2
        assert log.start_position == positions[2]
        clock.time += 100 * DAY
        assert log.trim(positions[3], clock.time) == 1
        assert [r.position for r in log.read(0, 9)] == positions[3:]


def test_trim_knows_the_age_of_segments_after_a_restart(tmp_path):
    clock = Clock()
    with SpanLog(tmp_path, segment_bytes=100, now=clock) as log:
        put(log, b"x" * 72, b"x" * 72)
        clock.time += 20 * DAY
        put(log, b"x" * 72)
    with SpanLog(tmp_path, segment_bytes=100, max_age_seconds=10 * DAY, now=clock) as log:
        assert log.trim(log.end_position, clock.time) == 1


def test_a_quiet_log_forgets_its_last_segment_too(tmp_path):
    clock = Clock()
    with SpanLog(tmp_path, max_age_seconds=10 * DAY, now=clock) as log:
        put(log, b"personal text")
        end = log.end_position
        assert log.trim(end, clock.time + 9 * DAY) == 0
        assert log.trim(end, clock.time + 11 * DAY) == 1
        assert (bodies(log), log.end_position) == ([], end)
        assert put(log, b"next") == [end]
    assert b"personal" not in b"".join(p.read_bytes() for p in tmp_path.iterdir())


def test_more_than_half_full_decided_segments_go_before_their_age(tmp_path):
    with SpanLog(tmp_path, segment_bytes=100, max_bytes=1000) as log:
        put(log, *[b"x" * 72] * 8)
        log.trim(log.end_position)
        assert 300 < log.total_bytes <= 500
