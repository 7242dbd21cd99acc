"""An error that arrives after its trace was decided makes it rise: counted once, with the chance that is true."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy import insert

from groundwatch import names
from groundwatch_alerts import tallies
from groundwatch_alerts.estimator import estimate
from groundwatch_collector import ledger, otlp, sampling, settling, tables
from groundwatch_collector.decision import DEFAULT_RATES
from groundwatch_collector.feedback_policy import DAY
from groundwatch_collector.late_errors import RESULTS
from groundwatch_collector.ragtrace import Outcome, from_json
from groundwatch_collector.settling_tables import late_offers, settled_traffic_tally
from groundwatch_scorer import queue, settle
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement

SALT = b"a salt for tests"
TRACE = f"{1:032x}"
LETTERS = f"{0xABCDEF:032x}"  # capitals are another text
SELDOM = {**dict.fromkeys(DEFAULT_RATES, 1e-9), "error_timeout": 1.0}
ALL = dict.fromkeys(DEFAULT_RATES, 1.0)
JUDGE = "local-1"


def request(make: Any, number: int) -> tuple[list[Any], Any]:
    """An answered request whose program recorded no outcome, and its call of the model as it turns out: failed."""
    spans = make.request(number, root={names.OUTCOME: None})
    call = next(span for span in spans if span.span_id.endswith("a5"))
    failed = dataclasses.replace(call, span_id="a5f".rjust(16, "0"), status="error")
    return spans, failed


def results(world: Any) -> dict[str, float]:
    return {name: found for name in RESULTS if (found := world.value("groundwatch_late_errors_total", result=name))}


def decided(world: Any, make: Any, rates: Any, number: int = 1) -> Any:
    """A decided request; its late error is returned and not sent."""
    world.start(dataclasses.replace(world.config, rates=rates))
    spans, failed = request(make, number)
    world.send(*spans)
    world.settle(4)
    return failed


def test_a_late_error_brings_the_trace_back_from_the_log(world, make):
    failed = decided(world, make, SELDOM)
    before, tally = world.ledger()[TRACE], world.rows(tables.traffic_tally)
    assert (before.verdict, before.outcome) == ("not_sampled", "answered")
    world.send(failed)
    world.settle(1)
    (offer,) = world.rows(late_offers)
    assert (offer.stratum, offer.from_stratum, offer.reason) == ("error_timeout", before.stratum, "late_error")
    assert (offer.inclusion_probability, offer.outcome) == (1.0, "error")
    (sampled,) = world.rows(tables.sampled_traces)
    assert (sampled.family, sampled.reason, sampled.stratum) == ("late", "late_error", "error_timeout")
    trace = from_json(sampled.payload)
    assert (trace.outcome, trace.span_count) == (Outcome.ERROR, 7)
    after = world.ledger()[TRACE]
    kept = ("stratum", "inclusion_probability", "outcome", "epoch", "last_position")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert (after.verdict, after.reason) == ("sampled", "late_error")
    assert world.rows(tables.traffic_tally) == tally
    assert results(world) == {"queued": 1}
    assert world.value("rag_late_errors_total", **{"from": before.stratum}) == 1
    assert ledger.report(world.engine, world.log).adds_up


def test_it_is_chosen_by_the_same_random_number_and_offered_whatever_that_is(world, make):
    world.start(dataclasses.replace(world.config, rates={**SELDOM, "error_timeout": 0.5}))
    pairs = [request(make, number) for number in range(1, 21)]
    for spans, _ in pairs:
        world.send(*spans)
    world.settle(4)
    for _, failed in pairs:
        world.send(failed)
    world.settle(1)
    ids = [make.trace_id(number) for number in range(1, 21)]
    expected = {trace_id for trace_id in ids if sampling.included(sampling.u56(trace_id, SALT), 0.5)}
    assert {row.trace_id for row in world.rows(tables.sampled_traces)} == expected
    assert 0 < len(expected) < 20
    assert {row.trace_id for row in world.rows(late_offers)} == set(ids)
    assert results(world) == {"queued": len(expected), "not_chosen": 20 - len(expected)}


def test_a_trace_that_was_drawn_rises_as_well_and_is_judged_once(world, make):
    failed = decided(world, make, ALL)
    queued = world.rows(tables.sampled_traces)
    world.send(failed)
    world.settle(1)
    assert len(world.rows(late_offers)) == 1
    assert world.rows(tables.sampled_traces) == queued
    assert results(world) == {"already_sampled": 1}


def test_a_failed_part_of_a_request_that_was_answered_changes_nothing(world, make):
    world.start(dataclasses.replace(world.config, rates=SELDOM))
    world.send(*make.request(1))  # whose program recorded "answered"
    world.settle(4)
    before = world.ledger()
    world.send(request(make, 1)[1])
    world.settle(1)
    assert (world.ledger(), world.rows(late_offers)) == (before, [])
    assert results(world) == {"not_an_error": 1}


def test_late_spans_without_an_error_are_not_looked_at(world, make):
    failed = decided(world, make, SELDOM)
    world.send(dataclasses.replace(failed, status="ok"))
    world.settle(1)
    assert (results(world), world.rows(late_offers)) == ({}, [])
    assert world.value("groundwatch_late_spans_total") == 1


def test_the_same_error_again_and_after_a_restart_is_one_rise(world, make):
    failed = decided(world, make, SELDOM)
    world.send(failed)
    world.settle(1)
    offers, sampled = world.rows(late_offers), world.rows(tables.sampled_traces)
    world.send(failed)
    world.settle(1)
    assert results(world) == {"queued": 1, "no_rise": 1}
    world.start()
    world.pipeline._cursor = 0  # everything is read again
    world.settle(1)
    assert (world.rows(late_offers), world.rows(tables.sampled_traces)) == (offers, sampled)


@pytest.mark.parametrize("written", ["in protobuf", "in JSON", "in capitals", "with escapes"])
def test_of_the_log_only_the_records_of_the_trace_are_decoded(world, make, monkeypatch, written):
    """Among a thousand others, each late error would else cost a thousand decodings."""
    world.start(dataclasses.replace(world.config, rates=SELDOM))
    spans, failed = request(make, 1)

    def send(part: list[Any]) -> None:
        body = make.otlp_json(part)
        if written == "in protobuf":
            world.log.append("otlp_protobuf", as_protobuf(body)).result()
            return
        own = {"in JSON": LETTERS, "in capitals": LETTERS.upper(), "with escapes": "\\u0030" + LETTERS[1:]}[written]
        world.log.append("otlp_json", body.replace(LETTERS.encode(), own.encode())).result()

    spans = [dataclasses.replace(span, trace_id=LETTERS) for span in spans]
    send(spans[:3])
    for number in range(2, 12):
        world.send(*make.request(number))
    send(spans[3:])
    world.settle(4)
    decoded, decode = [], otlp.decode

    def counted(body: bytes, *given: Any) -> Any:
        decoded.append(body)
        return decode(body, *given)

    monkeypatch.setattr(otlp, "decode", counted)
    world.send(dataclasses.replace(failed, trace_id=LETTERS))
    world.settle(1)
    assert from_json(world.rows(tables.sampled_traces)[0].payload).span_count == 7
    assert len(decoded) == 3  # the late one, and both parts of the trace


def as_protobuf(body: bytes) -> bytes:
    """OTLP/JSON has its ids in hex, which protobuf's own reader of JSON takes for base64."""
    found = json.loads(body)
    for resource in found["resourceSpans"]:
        for span in (span for scope in resource["scopeSpans"] for span in scope["spans"]):
            for key in ("traceId", "spanId", "parentSpanId"):
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    return json_format.ParseDict(found, ExportTraceServiceRequest()).SerializeToString()


@pytest.mark.parametrize("gone", ["left the log", "erased"])
def test_what_has_left_the_log_or_was_erased_is_counted(world, make, gone):
    failed = decided(world, make, SELDOM)
    if gone == "erased":
        with world.engine.begin() as connection:
            connection.execute(insert(tables.erased_traces).values(trace_id=TRACE, erased_at=0.0))
    else:
        world.pipeline._range = lambda first, last: iter(())
    world.send(failed)
    world.settle(1)
    assert results(world) == {"payload_gone": 1}
    assert world.rows(tables.sampled_traces) == []


def test_after_the_time_of_feedback_it_moves_no_family(world, make):
    failed = decided(world, make, SELDOM)
    world.time += DAY
    world.send(failed)
    world.settle(1)
    assert world.rows(late_offers) == []
    assert results(world) == {"queued": 1}  # for people to read
    assert world.value("rag_late_errors_total", **{"from": world.ledger()[TRACE].stratum}) == 0


def test_an_error_and_a_complaint_in_one_transaction_queue_the_trace_once(world, make):
    failed = decided(world, make, {**SELDOM, "feedback_neg": 1.0})
    world.send(failed)
    world.feedback(id="f1", trace_id=TRACE, name="thumbs", label="down")
    world.settle(1)
    assert {row.stratum for row in world.rows(late_offers)} == {"error_timeout", "feedback_neg"}
    assert len(world.rows(tables.sampled_traces)) == 1


# The families.


def fails(trace_id: str) -> bool:
    return int(trace_id, 16) % 4 == 0


def judge(world: Any) -> None:
    while claimed := queue.claim(world.engine, 500, 60.0, world.time):
        for sampled in claimed:
            label = "fail" if fails(sampled.trace.trace_id) else "pass"
            verdict = Judgement(
                sampled.trace.trace_id, Criterion.ANY_FAILURE, label, None, "", AnnotatorKind.CODE, JUDGE, world.time
            )
            queue.finish(world.engine, sampled, [verdict], bucket_seconds=world.config.bucket_seconds, now=world.time)


def settle_everything(world: Any) -> None:
    world.time += DAY + settling.STEP + settling.MARGIN_SECONDS
    judges = [(JUDGE, AnnotatorKind.CODE)]
    while settle.settle(
        world.engine, judges, horizon_seconds=DAY, bucket_seconds=world.config.bucket_seconds, now=world.time
    ):
        pass


@pytest.mark.parametrize("rates", [ALL, {**ALL, "normal_b0": 1e-9, "normal_b1": 1e-9, "normal_b2": 1e-9}])
def test_the_settled_family_knows_that_they_failed_and_the_fast_one_is_as_it_was(world, make, rates):
    """40 requests, ten of which turn out to have failed: drawn at their decision, or brought back."""
    world.start(dataclasses.replace(world.config, rates=rates))
    pairs = {number: request(make, number) for number in range(1, 41)}
    for spans, _ in pairs.values():
        world.send(*spans)
    world.settle(4)
    fast = tallies.sums(world.engine, app="shop", criterion="any_failure", judge=JUDGE)
    failed = [number for number in pairs if number % 4 == 0]  # every one that a judge would fail
    for number in failed:
        world.send(pairs[number][1])
    world.settle(1)
    judge(world)
    after = tallies.sums(world.engine, app="shop", criterion="any_failure", judge=JUDGE)
    assert [row.traffic for row in after] == [row.traffic for row in fast] == [40]
    settle_everything(world)
    settled = tallies.sums(world.engine, app="shop", criterion="any_failure", judge=JUDGE, family="settled")
    assert sum(row.traffic for row in settled) == 30
    assert sum(row.failed for row in settled) == 0
    if rates is ALL:
        found = estimate(settled)
        assert found is not None
        assert (found.traffic, found.judged, found.rate) == (30, 30, 0.0)
    by_stratum = {(row.stratum, row.outcome): row.received for row in world.rows(settled_traffic_tally)}
    assert by_stratum.pop(("error_timeout", "error")) == 10
    assert list(by_stratum.values()) == [30]
    assert world.rows(late_offers) == []
