"""The rate corrected for the judge's errors, per criterion, where a person looks: overview, JSON and a command."""

from __future__ import annotations

import json
import re
import time

import pytest
from queue_rows import queue_row
from sqlalchemy import insert
from starlette.testclient import TestClient

from groundwatch_collector.storage import add_to_tally, open_engine
from groundwatch_collector.tables import sampled_traces, traffic_tally
from groundwatch_deploy import migrations
from groundwatch_deploy.cli import main
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_review.rereading import REPEAT, SECOND
from groundwatch_scorer import judgement_store, second_look
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement
from groundwatch_scorer.second_look import PEOPLE, SecondLook
from groundwatch_scorer.tables import verdict_tally

COUNT, MODEL = 200, "llm:m:rubric-v1"
NOW = time.time()
FAITHFUL, RELEVANT = Criterion.FAITHFULNESS, Criterion.ANSWER_RELEVANCE


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Half of 400 requests are judged. The local judge calls each fourth unfaithful; the model, each eighth.

    On relevance the model said nothing, and people were asked about few.
    """
    folder = tmp_path_factory.mktemp("second")
    engine = open_engine(f"sqlite:///{folder / 'groundwatch.db'}")
    migrations.upgrade(engine)
    at = NOW - 3_600
    place = {"bucket_start": int(at), "app": "shop", "version": "v1", "stratum": "normal_b0"}
    sums = {"weight": 2.0 * COUNT, "fail_weight": COUNT / 2, "weight_sq": 4.0 * COUNT, "judged": COUNT}
    zero = {"not_applicable_weight": 0.0, "missing_weight": 0.0, "failed": COUNT // 4}
    with engine.begin() as connection:
        traffic = {**place, "outcome": "answered", "traces": 2.0 * COUNT, "received": 2 * COUNT}
        add_to_tally(connection, traffic_tally, [traffic])
        verdicts = [{**place, "criterion": str(c), "judge": "local", **sums, **zero} for c in (FAITHFUL, RELEVANT)]
        add_to_tally(connection, verdict_tally, verdicts)
        connection.execute(insert(sampled_traces), [queue_row(f"t{i}", "yes", at) for i in range(COUNT)])
        for i in range(COUNT):
            _judged(connection, i, at)
    engine.dispose()
    return folder


def _judged(connection, i: int, at: float) -> None:
    fails, truth = i % 4 == 0, "fail" if i % 8 == 0 else "pass"
    asked = fails or i % 2 == 1

    def verdict(criterion: Criterion, label: str, kind: AnnotatorKind, name: str) -> Judgement:
        return Judgement(f"t{i}", criterion, label, None, "", kind, name, at)

    first = "fail" if fails else "pass"
    rows = [verdict(c, first, AnnotatorKind.CODE, "local") for c in (FAITHFUL, RELEVANT)]
    if asked:
        rows.append(verdict(FAITHFUL, truth, AnnotatorKind.LLM, MODEL))
    judgement_store.append(connection, rows)
    looks = [SecondLook(MODEL, 1.0 if fails else 2 / 3, asked, fails), SecondLook(PEOPLE, 0.1, i % 10 == 0, False)]
    looks += [SecondLook(name, 0.1, i % 10 == 0, False) for name in (SECOND, REPEAT)]  # these correct no judge
    second_look.keep(connection, f"t{i}", looks)


def overview(data, path: str) -> str:
    engine = open_engine(f"sqlite:///{data / 'groundwatch.db'}")
    client = TestClient(console_app(engine, ConsoleConfig(), now=lambda: NOW), base_url="http://127.0.0.1:4390")
    answer = client.get(path)
    engine.dispose()
    assert answer.status_code == 200
    return answer.text


def test_the_overview_shows_the_corrected_rate_with_its_wider_interval(data):
    found = json.loads(overview(data, "/api/overview?criterion=faithfulness&window=24h"))
    seconds = {one["second"]: one for one in found["seconds"]}
    model, first = seconds[MODEL], found["figure"]
    assert first["rate"] == pytest.approx(0.25) and model["rate"] == pytest.approx(0.125)
    wide = {"low": model["low"] / model["rate"], "high": model["high"] / model["rate"]}
    assert wide["low"] < first["low"] / first["rate"] and wide["high"] > first["high"] / first["rate"]
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", overview(data, "/?criterion=faithfulness&window=24h")))
    assert f"As {MODEL} would have it" in page and "150 second verdicts of 1 day" in page


def test_without_enough_labels_the_reason_stands_there_and_no_rate(data):
    found = json.loads(overview(data, "/api/overview?criterion=answer_relevance&window=24h"))
    said = {one["second"]: (one["rate"], one["said"]) for one in found["seconds"]}
    assert said == dict.fromkeys((MODEL, PEOPLE), (None, "0 second verdicts, 50 are needed"))
    page = overview(data, "/?criterion=answer_relevance&window=24h")
    assert "Not corrected for the judge&#39;s errors by people" in page.replace("'", "&#39;")


def test_the_command_says_the_same_of_every_criterion(data, capsys):
    assert main(["estimate", "--data-dir", str(data), "--json"]) == 0
    told = {one["criterion"]: one for one in json.loads(capsys.readouterr().out)["criteria"]}
    faithful = told["faithfulness"]
    assert faithful["as_judged"]["rate"] == pytest.approx(0.25)
    assert faithful["corrected"][MODEL]["rate"] == pytest.approx(0.125)
    assert told["answer_relevance"]["corrected"][PEOPLE]["reason"] == "too_few_labels"
    assert told["citations"]["as_judged"] is None
    assert main(["estimate", "--data-dir", str(data)]) == 0
    text = capsys.readouterr().out
    assert "no corrected rate: 0 second verdicts, 50 are needed" in text and " 12.5% (" in text
    assert main(["estimate", "--data-dir", str(data), "--app", "nobody"]) == 2
    assert "accepted: shop" in capsys.readouterr().err
