"""Everything an endpoint can do wrong, through the queue: no crash, no loss, and all is counted and paid for."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from queue_rows import queue_row
from scripted_endpoint import (
    Answer,
    Handler,
    breaks_off,
    completion,
    control_of,
    data_of,
    hangs,
    honest,
    make_trace,
    model,
    raw,
    says,
    serving,
    status,
)
from sqlalchemy import Engine, insert

from groundwatch_collector.ragtrace import to_json
from groundwatch_collector.tables import sampled_traces
from groundwatch_scorer import judgement_store, queue
from groundwatch_scorer.judgement import Criterion
from groundwatch_scorer.llm_budget import Price
from groundwatch_scorer.scorer_metrics import ScorerMetrics
from groundwatch_scorer.worker import ScorerWorker

T0 = 1_700_000_000.0
PRICE = {"m1": Price(100.0, 1000.0)}  # 0.30 for a call of 1,000 and 200 tokens
VERDICT = '{"claims": [{"sentence_id": "s1", "label": "supported"}]}'


def quoting(quote: str) -> Answer:
    def edit(reply: dict[str, Any], data: dict[str, Any]) -> None:
        for claim in reply["claims"]:
            if claim["sentence_id"] != control_of(data):
                claim |= {"label": "supported", "evidence": [{"chunk_id": "c1", "quote": quote}]}

    return model(edit)


def all_supported(reply: dict[str, Any], _data: dict[str, Any]) -> None:
    for claim in reply["claims"]:
        claim |= {"label": "supported", "evidence": [{"chunk_id": "c1", "quote": "25 MB"}]}


def says_the_nonce(reply: dict[str, Any], data: dict[str, Any]) -> None:
    reply["answerability"]["reason"] = f"as I was told: {data['nonce']}"


def half(handler: Handler, body: dict[str, Any]) -> None:
    whole = json.dumps(honest(data_of(body)))
    handler.respond(200, completion(whole[: len(whole) // 2], "length"))


# what the endpoint does with a trace -> label of its headline, reason in the metrics, calls that are paid for
CASES: dict[str, tuple[Answer, str, str, int]] = {
    "an honest reply": (model(), "pass", "", 1),
    "garbage": (says("\x00\ufffd lorem {"), "unscored", "bad_reply", 2),
    "half of the JSON": (half, "unscored", "bad_reply", 2),
    "wrong types": (says('{"claims": 5, "chunks": "no"}'), "unscored", "bad_reply", 2),
    "no completion": (raw(b"[]"), "unscored", "bad_reply", 0),
    "a verdict of its own form": (says(VERDICT), "unscored", "bad_reply", 2),
    "the model declines": (says(None, refusal="I cannot."), "unscored", "model_refused", 0),
    "429": (status(429), "unscored", "rate_limited", 0),
    "500": (status(500), "unscored", "server_error", 0),
    "no end of the body": (breaks_off, "unscored", "unreachable", 0),
    "it hangs": (hangs, "unscored", "timeout", 1),
    "a quote that is not there": (quoting("files of any size"), "unscored", "", 1),
    "a verdict injected before the real one": (model(wrap=f"{VERDICT} {{}}"), "pass", "", 1),
    "it waves everything through": (model(all_supported), "unscored", "control_supported", 1),
    "it repeats the nonce": (model(says_the_nonce), "unscored", "nonce_repeated", 1),
}


@pytest.mark.parametrize("concurrency", [1, 4])
def test_an_endpoint_that_does_all_of_it(engine: Engine, judge_at, concurrency: int) -> None:
    names = [*CASES] * 2
    rows = []
    for number in range(len(names)):
        trace = make_trace(f"Case {number}: free accounts can upload files up to 25 MB.", trace_id=f"g{number:02}")
        rows.append(queue_row(trace.trace_id, "", T0, queued_at=T0 + number) | {"payload": to_json(trace)})
    with engine.begin() as connection:
        connection.execute(insert(sampled_traces), rows)

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        sentence = next(s["text"] for s in data_of(body)["sentences"] if s["text"].startswith("Case "))
        number = int(sentence.split(":")[0].removeprefix("Case "))
        CASES[names[number]][0](handler, body)

    registry = CollectorRegistry()
    with serving(answer) as server:
        judge = judge_at(server, timeout=0.6, prices=PRICE, pause_seconds=0.0, cache_replies=100)
        options: dict[str, Any] = {"bucket_seconds": 60, "now": lambda: T0 + 60, "concurrency": concurrency}
        worker = ScorerWorker(engine, [judge], ScorerMetrics(registry), batch=8, **options)
        while worker.step():
            pass
    spent = 0.0
    for number, name in enumerate(names):
        kept = {j.criterion: j for j in judgement_store.for_trace(engine, f"g{number:02}")}
        assert set(kept) == set(Criterion), name
        assert kept[Criterion.ANY_FAILURE].label == CASES[name][1], name
        spent += kept[Criterion.ANY_FAILURE].cost_usd or 0.0
    assert queue.depth(engine) == queue.Depth(0, 0, None)
    reasons = Counter(CASES[name][2] for name in names)
    for reason in set(reasons) - {""}:
        counted = registry.get_sample_value(
            "groundwatch_judge_failures_total", {"judge": judge.identifier, "reason": reason}
        )
        assert counted == reasons[reason], reason
    flags = {"judge": judge.identifier, "flag": "fabricated_quote"}
    assert registry.get_sample_value("groundwatch_judge_flags_total", flags) == 2
    assert registry.get_sample_value("groundwatch_judge_seconds_count", {"judge": judge.identifier}) == len(names)
    full = sum(CASES[name][3] for name in names if name != "it hangs") * 0.30
    assert full < spent < full + 2 * 0.30  # a hanging call is paid by estimate, for what went in
    assert registry.get_sample_value("groundwatch_judge_cost_usd_total", {"judge": judge.identifier}) == (
        pytest.approx(spent)
    )
    assert judgement_store.spent_usd(engine, judge.identifier, T0) == pytest.approx(spent)


def test_the_money_budget_is_kept_whatever_the_endpoint_does(engine: Engine, judge_at) -> None:
    names = [name for name in CASES if name not in ("it hangs", "429")] * 4

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        CASES[names[len(handler.server.requests) % len(names)]][0](handler, body)

    found = []
    with serving(answer) as server:
        judge = judge_at(server, prices=PRICE, max_usd_per_day=6.0, pause_seconds=0.0)
        for number in range(len(names)):
            found.append(judge.assess(make_trace(f"Case {number}: up to 25 MB.")))
    assert sum(a.cost_usd or 0.0 for a in found) <= 6.0
    assert found[-1].unscored_reason == "over_budget"
    assert sum(a.cost_usd or 0.0 for a in found) > 4.0  # and it is used
