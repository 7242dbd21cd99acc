"""What is past its time is gone: from the tables, and on SQLite from the bytes of its files. No sum changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import Table, func, insert, select, update
from starlette.testclient import TestClient

from groundwatch import names
from groundwatch_alerts import compaction, tallies
from groundwatch_alerts.estimate_metrics import TallyCollector
from groundwatch_collector.ledger import report
from groundwatch_collector.sampled import BLANK_PAYLOAD
from groundwatch_collector.storage import add_to_tally, reader
from groundwatch_collector.tables import dead_letters, feedback, ledger, ledger_base, sampled_traces, traffic_tally
from groundwatch_deploy.retention import DAY_SECONDS, KINDS, RetentionConfig
from groundwatch_deploy.serve import Monitor
from groundwatch_deploy.settings import load
from groundwatch_review import candidates as candidate_desk
from groundwatch_review import desk, labelling_policy, queries, readings, review_queue, second_person
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_review.labels import Expectation, Label
from groundwatch_review.rereading import REPEAT, SECOND
from groundwatch_review.tables import candidates, holdout_ticks, reviews
from groundwatch_scorer import second_look
from groundwatch_scorer.second_look import PEOPLE
from groundwatch_scorer.tables import fault_tally, judge_calls, judgements, verdict_tally

START = 1_780_000_000.0
CANARY = "Zanzibar-canary-4711"
REVIEWER = "rv_0123456789abcdef"


def body(number: int, **changes: Any) -> bytes:
    """One request whose answer no passage supports, with the canary in every text."""
    passage = {"id": "kb-1", "rank": 1, "content": f"{CANARY} uploads of 50 MB are allowed in the team edition."}
    attributes = {
        names.STAGE: "request",
        names.QUERY: f"How large may an upload be, {CANARY}?",
        names.ANSWER: f"{CANARY}: it costs 900 euros a year and syncs every 7 minutes to all devices.",
        names.OUTCOME: "answered",
        names.CONTEXT: orjson.dumps([passage]).decode(),
        **changes,
    }
    start = round((START + number) * 1e9)
    span = {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": "request",
        "kind": 2,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 500_000_000),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }
    resource = [
        {"key": key, "value": {"stringValue": value}}
        for key, value in ((names.SERVICE_NAME, "shop"), (names.SERVICE_VERSION, "1"))
    ]
    scope = {"scope": {"name": names.SCOPE_NAME}, "spans": [span]}
    return orjson.dumps({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scope]}]})


class World:
    """A monitor whose parts are stepped by hand, on a clock that is moved."""

    def __init__(self, folder: Path, url: str) -> None:
        self.time = START
        settings = load(None, data_directory=folder, ingest_port=0, console_port=0, metrics_port=0, database_url=url)
        rates = dict.fromkeys(settings.decide.rates, 1.0)
        decide = replace(settings.decide, rates=rates, trim_interval_seconds=0.0)
        server = replace(settings.server, log_segment_bytes=1 << 16)
        self.monitor = Monitor(replace(settings, decide=decide, server=server), now=lambda: self.time)
        self.engine = self.monitor.engine

    def receive(self, *numbers: int, judge: bool = True) -> None:
        for number in numbers:
            self.monitor.log.append("otlp_json", body(number)).result()
        self.settle()
        while judge and self.monitor.scorer.step():
            pass

    def settle(self) -> None:
        while self.monitor.pipeline.step(0):
            pass
        self.time += 5
        while self.monitor.pipeline.step(0):
            pass

    def complain(self, number: int) -> None:
        given = {"id": f"f{number}", "trace_id": f"{number:032x}", "name": "thumbs", "label": "down", "by": CANARY}
        self.monitor.log.append("feedback", orjson.dumps({**given, "comment": f"{CANARY} is wrong"})).result()
        self.settle()

    def pass_days(self, days: float) -> dict[str, int]:
        """Move the clock, let the log forget, and run retention; return what it removed."""
        self.time += days * DAY_SECONDS
        self.monitor.pipeline.step(0)
        return {kind: count for kind, count in self.monitor.retention.step().items() if count}

    def rows(self, table: Table) -> list[Any]:
        with self.engine.connect() as connection:
            return list(connection.execute(select(table)))

    def payloads(self) -> dict[int, str]:
        return {int(row.trace_id, 16): row.payload for row in self.rows(sampled_traces)}

    def account(self) -> Any:
        return report(reader(self.engine), self.monitor.log)


@pytest.fixture
def world(tmp_path: Path, database_url: str) -> Iterator[World]:
    made = World(tmp_path / "data", database_url)
    yield made
    made.monitor.stop()


def words_in(world: World) -> list[str]:
    """Names of tables in which the canary can still be read."""
    tables = (sampled_traces, judgements, judge_calls, feedback, reviews, dead_letters, candidates, ledger)
    return [table.name for table in tables if CANARY in repr([tuple(row) for row in world.rows(table)])]


def test_the_text_of_people_is_gone_after_its_days_and_the_verdicts_stay(world: World) -> None:
    world.receive(1, 2)
    world.complain(1)
    desk.reject(world.engine, f"{1:032x}", "", f"not wrong, says {CANARY}", REVIEWER, world.time)
    desk.reject(world.engine, f"{2:032x}", "", "", REVIEWER, world.time)
    assert set(words_in(world)) >= {"sampled_traces", "judgements", "feedback", "reviews"}
    labels = [(row.trace_id, row.criterion, row.label, row.score) for row in world.rows(judgements)]
    call = {"trace_id": f"{1:032x}", "identifier": "llm:m", "judged_at": world.time, "part": 0}
    with world.engine.begin() as connection:
        connection.execute(insert(judge_calls).values(**call, prompt=CANARY, reply=CANARY))

    assert world.pass_days(13.9) == {}
    assert world.pass_days(0.2) == {
        "payloads": 2,
        "judgement_texts": len(labels),
        "judge_calls": 1,
        "feedback_texts": 1,
        "review_notes": 1,
    }
    assert words_in(world) == []
    assert [(row.trace_id, row.criterion, row.label, row.score) for row in world.rows(judgements)] == labels
    assert world.pass_days(0.1) == {}


def test_a_layer_at_fault_can_still_be_read_when_its_evidence_is_gone(world: World) -> None:
    world.receive(1)
    with world.engine.connect() as connection:
        before = [row.layer for row in queries.trace_rows(connection, queries.TraceFilter(app="shop"), 5)]
    world.pass_days(31)
    with world.engine.connect() as connection:
        after = [row.layer for row in queries.trace_rows(connection, queries.TraceFilter(app="shop"), 5)]
        record = queries.trace(connection, f"{1:032x}")
    assert record is not None
    assert record.trace is None
    app = console_app(world.engine, ConsoleConfig(), now=lambda: world.time, candidate_key=b"k" * 32)
    with TestClient(app, base_url="http://127.0.0.1") as console:
        page = console.get(f"/traces/{1:032x}")
        assert (page.status_code, "the days for which text is kept are over" in page.text) == (200, True)
        assert console.get("/review").status_code == console.get("/traces").status_code == 200
    assert before == after != [""]


def test_what_waits_for_a_person_keeps_its_text_longer_but_not_for_ever(world: World) -> None:
    world.receive(1, 2, 3)
    desk.confirm(world.engine, f"{2:032x}", "generation", "", REVIEWER, world.time)
    desk.reject(world.engine, f"{3:032x}", "", "", REVIEWER, world.time)
    assert world.pass_days(15)["payloads"] == 1
    assert {number for number, payload in world.payloads().items() if payload != BLANK_PAYLOAD} == {1, 2}

    candidate_desk.create(world.engine, f"{2:032x}", b"k" * 32, world.time)
    assert world.pass_days(1)["payloads"] == 1  # confirmed, and a candidate of its own now
    with world.engine.connect() as connection:
        assert review_queue.size(connection, "shop") == 1
    assert world.pass_days(14.1)["payloads"] == 1  # nobody looked at it
    with world.engine.connect() as connection:
        assert review_queue.size(connection, "shop") == 0


def test_a_disputed_trace_waits_and_how_people_labelled_is_known_after_its_text(world: World) -> None:
    world.receive(1, 2)
    label = Label("rejected", expectation=Expectation(reference_answer=CANARY))
    for number in (1, 2):
        desk.decide(world.engine, f"{number:032x}", label, REVIEWER, world.time, blind=True)
    desk.decide(world.engine, f"{2:032x}", Label("confirmed", "rerank"), "rv_00000000", world.time, blind=True)
    assert world.pass_days(15)["payloads"] == 1
    assert {number for number, payload in world.payloads().items() if payload != BLANK_PAYLOAD} == {2}
    world.pass_days(16)
    with world.engine.connect() as connection:
        said = {(reading.kind, reading.layer, reading.policy) for reading in readings.blind(connection)}
    assert said == {("first", "", labelling_policy.VERSION), ("second", "rerank", labelling_policy.VERSION)}
    assert words_in(world) == []


OTHER = "rv_00000000"
QUEUES: dict[str, tuple[list[str], list[str], review_queue.Reader]] = {
    # drawn for whom, who read it already, and who now finds it in the queue
    "drawn": ([PEOPLE], [], review_queue.ANYBODY),
    "second": ([PEOPLE, SECOND], [REVIEWER], review_queue.Reader(OTHER)),
    "repeat": ([REPEAT], [REVIEWER], review_queue.Reader(REVIEWER, repeat_before=START + 20 * DAY_SECONDS)),
}


@pytest.mark.parametrize("kind", QUEUES)
def test_what_is_drawn_for_another_reading_waits_but_not_for_ever(world: World, kind: str) -> None:
    """A trace that the judge passed: nothing but the draw keeps it. The queue itself says that it waits."""
    drawn, readers, due = QUEUES[kind]
    trace_id = f"{1:032x}"
    world.receive(1, 2)
    with world.engine.begin() as connection:
        connection.execute(update(judgements).values(label="pass"))
        second_look.keep(connection, trace_id, [second_look.SecondLook(name, 0.5, True, False) for name in drawn])
    for reviewer in readers:
        desk.decide(world.engine, trace_id, Label("rejected"), reviewer, world.time, blind=True)

    assert world.pass_days(15)["payloads"] == 1
    assert {number for number, payload in world.payloads().items() if payload != BLANK_PAYLOAD} == {1}
    with world.engine.connect() as connection:
        assert review_queue.size(connection, "shop", due) == 1

    desk.decide(world.engine, trace_id, Label("rejected"), due.reviewer or REVIEWER, world.time, blind=True)
    with world.engine.connect() as connection:
        assert review_queue.size(connection, "shop", due) == 0
    assert world.pass_days(0.1)["payloads"] == 1  # it was read: nobody waits for it any more


def test_what_nobody_reads_again_is_not_kept_beyond_its_limit(world: World) -> None:
    world.receive(1)
    with world.engine.begin() as connection:
        looks = [second_look.SecondLook(name, 0.5, True, False) for name in (PEOPLE, SECOND, REPEAT)]
        second_look.keep(connection, f"{1:032x}", looks)
    assert "payloads" not in world.pass_days(29.9)
    assert world.pass_days(0.2)["payloads"] == 1
    assert words_in(world) == []


def test_without_text_there_is_nothing_to_make_a_candidate_of(world: World) -> None:
    world.receive(1)
    desk.confirm(world.engine, f"{1:032x}", "generation", "", REVIEWER, world.time)
    world.pass_days(31)
    with pytest.raises(desk.Refused, match="its text is gone"):
        candidate_desk.create(world.engine, f"{1:032x}", b"k" * 32, world.time)


def test_a_candidate_that_is_gone_takes_along_who_released_it(world: World) -> None:
    world.receive(1)
    desk.confirm(world.engine, f"{1:032x}", "generation", "", REVIEWER, world.time)
    candidate_id = candidate_desk.create(world.engine, f"{1:032x}", b"k" * 32, world.time)
    with world.engine.begin() as connection:
        document = {"candidate_id": candidate_id, "split": "HOLDOUT", "revision": 1}
        second_person.tick(connection, document, REVIEWER, world.time)
    assert world.rows(holdout_ticks)
    assert world.pass_days(400)["candidates"] == 1
    assert world.rows(holdout_ticks) == []


def test_a_trace_that_no_judge_reached_in_time_counts_as_missing(world: World) -> None:
    world.receive(1, judge=False)
    world.pass_days(15)
    while world.monitor.scorer.step():
        pass
    world.monitor.scorer.step()
    assert [row.state for row in world.rows(sampled_traces)] == ["unscored"]
    assert {row.missing_weight for row in world.rows(verdict_tally)} == {1.0}


def test_feedback_on_a_trace_that_was_not_sampled_loses_its_words_too(world: World) -> None:
    world.complain(77)
    assert world.pass_days(15) == {"feedback_texts": 1}
    assert words_in(world) == []


def test_bodies_that_cannot_be_read_are_dropped_and_counted_on(world: World) -> None:
    world.monitor.log.append("otlp_json", b'{"resourceSpans": "' + CANARY.encode() + b'"}').result()
    world.settle()
    counted = world.account().dead_letters
    assert sum(counted.values()) == 1
    assert world.pass_days(15) == {"dead_letter_bodies": 1}
    assert words_in(world) == []
    world.receive(1)  # the log goes on, so that its old segments can go
    assert world.pass_days(180)["dead_letters"] == 1
    assert world.rows(dead_letters) == []
    assert world.account().dead_letters == counted


def test_the_account_adds_up_when_old_rows_are_gone(world: World) -> None:
    world.receive(1, 2, 3)
    world.complain(2)
    world.monitor.log.append("otlp_json", body(4, **{names.STAGE: "embedding"})).result()
    world.settle()
    before = world.account()
    scraped = scrape(world)
    world.pass_days(20)
    world.receive(5)
    removed = world.pass_days(170)
    assert removed["ledger_rows"] == 4
    assert [int(row.trace_id, 16) for row in world.rows(ledger)] == [5]
    assert {row.trace_id for row in world.rows(judgements)} == {f"{5:032x}"}
    assert world.rows(feedback) == []
    after = world.account()
    assert after.adds_up
    assert (after.received, after.judged) == (before.received + 1, before.judged + 1)
    assert (after.skipped, after.lost, after.doubled) == (before.skipped, {}, 0)
    assert all(value >= scraped[name] for name, value in scrape(world).items() if name in scraped)


def test_a_row_stays_while_the_log_can_still_bring_its_trace_again(world: World) -> None:
    world.receive(1)
    world.monitor.retention._oldest_position = lambda: 0  # as where the log is kept longer than the ledger
    assert "ledger_rows" not in world.pass_days(400)
    assert len(world.rows(ledger)) == 1


def test_a_trace_that_is_judged_at_this_moment_is_not_removed(world: World) -> None:
    world.receive(1, judge=False)
    world.time += 400 * DAY_SECONDS
    world.monitor.pipeline.step(0)
    assert world.monitor.retention.step()["ledger_rows"] == 0
    assert [row.state for row in world.rows(sampled_traces)] == ["waiting"]


@pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)  # the other one's files are not ours
def test_no_byte_of_the_text_is_left_in_the_files(world: World, tmp_path: Path) -> None:
    world.receive(*range(1, 60))
    world.complain(3)
    desk.confirm(world.engine, f"{3:032x}", "generation", CANARY, REVIEWER, world.time)
    files = [path for path in (tmp_path / "groundwatch.db", tmp_path / "groundwatch.db-wal") if path.exists()]
    assert any(CANARY.encode() in path.read_bytes() for path in files)
    size = sum(path.stat().st_size for path in files)
    world.receive(60, judge=False)  # left in the queue
    world.pass_days(31)
    left = sorted(
        path.name for path in tmp_path.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()
    )
    # The log's newest segment goes when its own age is over and something comes after it.
    assert [name for name in left if not name.endswith(".log")] == []
    assert (tmp_path / "groundwatch.db").stat().st_size < size
    assert (tmp_path / "groundwatch.db-wal").stat().st_size == 0


# Sums.


def scrape(world: World) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(TallyCollector(world.engine))
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


@pytest.fixture
def sums(world: World) -> Callable[[], None]:
    """Fill 400 days of minutes with weights that are no round numbers."""

    def fill() -> None:
        key = {"app": "shop", "version": "1"}
        traffic, verdicts, faults = [], [], []
        for number in range(1000):  # 20 of an hour, two hours of a day, every 16th day
            hour, minute = divmod(number, 20)
            bucket = int(START // 60) * 60 + hour // 2 * 16 * 86_400 + hour % 2 * 3600 + minute * 180
            stratum, weight = ("normal_b0", 1 / 0.03) if number % 3 else ("refusal", 1 / 0.7)
            at = {**key, "bucket_start": bucket, "stratum": stratum}
            traffic.append({**at, "outcome": "answered", "traces": 1.1, "received": 1})
            judged = {"criterion": "any_failure", "judge": "l", "judged": 1, "failed": number % 2}
            missing = {"not_applicable_weight": 0.1, "missing_weight": 0.3}
            weights = {"weight": weight, "fail_weight": weight * (number % 2), "weight_sq": weight**2}
            verdicts.append({**at, **judged, **missing, **weights})
            faults.append({**at, "layer": "rerank", "judge": "l", "weight": weight, "judged": 1})
        with world.engine.begin() as connection:
            for table, rows in ((traffic_tally, traffic), (verdict_tally, verdicts), (fault_tally, faults)):
                connection.execute(insert(table), rows)

    return fill


def test_merging_steps_of_time_changes_no_total_and_no_window(world: World, sums) -> None:
    sums()
    ask: dict[str, Any] = {"app": "shop", "criterion": "any_failure", "judge": "l"}
    day = int(START // DAY_SECONDS + 30) * int(DAY_SECONDS)
    hour = int(START // 3600 + 24 * 16 * 18) * 3600

    def windows() -> list[Any]:
        return [
            tallies.sums(world.engine, **ask, since=day, until=day + 20 * DAY_SECONDS),
            tallies.sums(world.engine, **ask, since=hour, until=hour + 7200),
            tallies.series(world.engine, **ask, step_seconds=int(DAY_SECONDS)),
        ]

    totals, seen = scrape(world), windows()
    removed = world.pass_days(400)
    assert removed["tally_rows"] > 2_500
    assert scrape(world) == totals  # to the last digit that is exported
    for before, after in zip(seen, windows(), strict=True):
        assert repr_of(before) == pytest.approx(repr_of(after), rel=1e-12)
    with world.engine.connect() as connection:
        steps = connection.execute(select(func.min(traffic_tally.c.bucket_start % 3600))).scalar_one()
        newest = connection.execute(select(func.max(traffic_tally.c.bucket_start))).scalar_one()
    assert steps == 0
    assert newest % 3600 != 0  # the last month is as fine as it was
    assert world.pass_days(0) == {}


def repr_of(window: Any) -> list[float]:
    rows = [row for entry in window for row in (entry[1] if isinstance(entry, tuple) else [entry])]
    return [value for row in rows for value in vars_of(row)]


def vars_of(row: Any) -> list[float]:
    return [float(getattr(row, name)) for name in row.__dataclass_fields__ if name != "stratum"]


def test_a_verdict_that_comes_while_steps_are_merged_is_kept(world: World, sums) -> None:
    sums()
    merging = compaction.compact(world.engine, START + 30 * DAY_SECONDS, compaction.HOUR)
    next(merging)
    late = {"bucket_start": int(START // 60) * 60, "app": "shop", "version": "1", "stratum": "refusal"}
    with world.engine.begin() as connection:
        add_to_tally(connection, traffic_tally, [{**late, "outcome": "answered", "traces": 5.0, "received": 5}])
    before = sum(row.received for row in world.rows(traffic_tally))
    for _ in merging:
        pass
    for _ in compaction.compact(world.engine, START + 30 * DAY_SECONDS, compaction.HOUR):
        pass
    assert sum(row.received for row in world.rows(traffic_tally)) == before == 1005


def test_every_tally_is_compacted() -> None:
    assert {table.name for table in compaction.tally_tables()} >= {"traffic_tally", "verdict_tally", "fault_tally"}


# The job.


def test_every_kind_is_a_series_from_the_start_and_counts(world: World) -> None:
    value = world.monitor.registry.get_sample_value
    assert [value("groundwatch_retention_removed_total", {"kind": kind}) for kind in KINDS] == [0.0] * len(KINDS)
    world.complain(1)
    world.pass_days(15)
    assert value("groundwatch_retention_removed_total", {"kind": "feedback_texts"}) == 1
    assert value("groundwatch_retention_last_success_timestamp_seconds") == world.time


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"raw_days": 0}, "raw_days: found 0"),
        ({"raw_days": 60}, "raw_days: found 60, accepted: more than 0 and at most review_days"),
        ({"hourly_after_days": 200}, "hourly_after_days"),
        ({"batch_rows": 0}, "batch_rows"),
        ({"interval_seconds": 0}, "interval_seconds"),
    ],
)
def test_times_that_make_no_sense_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RetentionConfig(**changes)


def test_rows_that_stand_for_removed_ones_add_up_over_runs(world: World) -> None:
    for number in (1, 2):
        world.receive(number)
        world.time += 200 * DAY_SECONDS
    world.receive(3)
    world.pass_days(200)
    assert sum(row.traces for row in world.rows(ledger_base)) >= 2
    assert world.account().adds_up
