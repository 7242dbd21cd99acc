"""The pages about versions and objectives say what the estimates say."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import Engine
from starlette.testclient import TestClient

from groundwatch_alerts import tallies
from groundwatch_alerts.estimator import estimate
from groundwatch_alerts.objectives import AlertsConfig, Objective
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_review.console.alertspage import read
from groundwatch_scorer.judgement import AnnotatorKind, Assessment, FaultFinding, FaultLayer

APP, JUDGE, NOW = "manual-assistant", "local:claims-1", 1_790_000_000.0


def page(engine: Engine, path: str, *objectives: Objective) -> str:
    app = console_app(engine, ConsoleConfig(), now=lambda: NOW, objectives=objectives)
    answer = TestClient(app, base_url="http://127.0.0.1:4390").get(path)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.text))


def objective(share: float, criterion: str = "any_failure") -> Objective:
    return Objective("good", criterion, share, window="24h")


def test_the_versions_page_names_the_worse_version_and_its_criterion(engine, world):
    text = page(engine, "/versions")
    assert "Version 1.5.0 fails more often than 1.4.2: any failure." in text
    assert "Failures of 1.5.0" in text and "Failures of 1.4.2" in text
    turned = page(engine, "/versions?a=1.5.0&b=1.4.2")
    assert "Version 1.4.2 fails less often than 1.5.0: any failure." in turned


@pytest.mark.parametrize("query", ["a=nothing&b=1.5.0", "a=1.5.0&b=1.5.0", "app=nobody"])
def test_what_is_not_known_is_chosen_by_the_page(engine, world, query):
    assert "1.5.0" in page(engine, f"/versions?{query}")


def test_an_objective_is_missed_exactly_where_the_alerts_score_says_so(engine, world):
    found = estimate(tallies.sums(engine, app=APP, criterion="any_failure", judge=JUDGE, since=NOW - 86_400))
    assert found is not None
    shares = [0.02, 0.08, found.rate - 0.005, found.rate + 0.005, 0.5]
    states = [state(engine, objective(share)) for share in shares]
    expected = ["missed" if found.score(share) > objective(share).z(found.judged) else "kept" for share in shares]
    assert states == expected
    assert {"missed", "kept"} == set(states)


def state(engine: Engine, item: Objective, min_judged: int = 60) -> str:
    (line,) = read(engine, APP, JUDGE, [item], config=AlertsConfig(min_judged=min_judged), now=NOW).lines
    return line.state


def test_few_verdicts_are_blind_and_not_good_news(engine, world):
    assert state(engine, objective(0.02), min_judged=10_000) == "blind"
    text = page(engine, "/objectives", objective(0.02, criterion="citations"))
    assert "No objective is seen to be missed, but 1 objective cannot be told." in text
    assert "cannot be told: 0 judged, 60 are needed" in text


def test_the_page_says_how_to_set_an_objective_and_what_prometheus_watches(engine, world):
    empty = page(engine, "/objectives")
    assert "[objectives.good-answers]" in empty and "--config groundwatch.toml" in empty
    text = page(engine, "/objectives", Objective("quick", "latency", 4.0))
    assert "No objective is set for judged answers; 1 objective is watched by Prometheus alone." in text
    assert "4 s at 95%" in text and "RagMixShift" in text and "RagLatencyAboveObjective" not in text
    both = page(engine, "/objectives", objective(0.5), Objective("quick", "latency", 4.0))
    assert "seen to be missed. 1 objective is watched by Prometheus alone and not told here." in both


def test_a_question_asked_of_both_versions_opens_both_traces_side_by_side(engine, add_trace):
    finding = FaultFinding(FaultLayer.RERANK, 0.9, "cut", ())
    judged = Assessment(JUDGE, AnnotatorKind.CODE)
    old = add_trace(1, judged, version="1.4.2", query="How  big may it be?", answer="50 MB.")
    new = add_trace(2, judged, finding, version="1.5.0", query="how big may it be?", answer="500 MB.")
    add_trace(3, judged, finding, version="1.5.0", query="and something else?")
    client = TestClient(console_app(engine, ConsoleConfig(), now=lambda: NOW), base_url="http://127.0.0.1:4390")
    listed = client.get("/versions", params={"app": APP, "a": "1.4.2", "b": "1.5.0"}).text
    address = f"/compare?a={old}&amp;b={new}&amp;app={APP}"
    assert address in listed and "and something else?" not in listed
    both = client.get(address.replace("&amp;", "&")).text
    assert "the same question, asked of two versions" in both
    assert "50 MB." in both and "500 MB." in both and "Fault: rerank" in both
    assert f'href="/traces/{old}"' in both and f'href="/traces/{new}"' in both
    for odd in (f"/compare?a={old}", "/compare", f"/compare?a={old}&b={'f' * 32}", f"/compare?a={old}&b=%27"):
        assert client.get(odd).status_code == 404


def test_links_to_the_older_address_of_the_objectives_lead_on(engine, world):
    app = console_app(engine, ConsoleConfig(), now=lambda: NOW)
    client = TestClient(app, base_url="http://127.0.0.1:4390", follow_redirects=False)
    found = client.get("/alerts?app=manual-assistant&window=1h")
    assert (found.status_code, found.headers["location"]) == (308, "/objectives?app=manual-assistant&window=1h")


def test_without_traffic_both_pages_lead_to_the_empty_one(engine):
    assert "4318" in page(engine, "/versions")
    assert "4318" in page(engine, "/objectives")
