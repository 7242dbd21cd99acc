"""Every page renders from real tables and says what is true; odd addresses and empty data are answered helpfully."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import orjson
import pytest
from sqlalchemy import Engine, event, insert, select, update
from starlette.testclient import TestClient

from groundwatch_alerts import tallies
from groundwatch_alerts.estimator import estimate
from groundwatch_collector import ragtrace, storage
from groundwatch_collector.ragtrace import Document, Outcome
from groundwatch_collector.tables import feedback, sampled_traces, traffic_tally
from groundwatch_review import queries, review_queue
from groundwatch_review.candidates import CandidatePolicy
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_review.console.guard import CSRF_COOKIE
from groundwatch_review.tables import candidates, reviews
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    Assessment,
    ClaimVerdict,
    Evidence,
    FaultFinding,
    FaultLayer,
    Verdict,
)
from groundwatch_scorer.tables import judgements, verdict_tally

NOW = 1_790_000_000.0
APP = "manual-assistant"
JUDGE = "local:claims-1"
ORIGIN = "http://127.0.0.1:4390"
POLICY = CandidatePolicy(consent="CONTRACT", license="internal")


def client_for(engine: Engine, **config: Any) -> TestClient:
    app = console_app(
        engine, ConsoleConfig(**config), now=lambda: NOW, candidate_key=b"k" * 32, candidate_policy=POLICY
    )
    return TestClient(app, base_url=ORIGIN)


@pytest.fixture
def client(engine: Engine) -> Iterator[TestClient]:
    with client_for(engine) as found:
        yield found


class _Text(HTMLParser):
    """The text of a page as a reader sees it, without what only a screen reader or tooltip says."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def text_of(page: str) -> str:
    parser = _Text()
    parser.feed(page)
    return re.sub(r"\s+", " ", "".join(parser.parts))


def post(client: TestClient, path: str, **fields: str) -> Any:
    """Send a form as our own page would."""
    client.get("/candidates")
    token = client.cookies[CSRF_COOKIE]
    return client.post(path, data={"csrf": token, **fields}, headers={"origin": ORIGIN}, follow_redirects=False)


# Empty


@pytest.mark.parametrize("path", ["/", "/traces", "/review"])
def test_before_the_first_trace_a_page_says_how_to_point_an_app_here(client, path):
    page = client.get(path)
    assert page.status_code == 200
    assert "Nothing has been received yet" in page.text
    assert "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318" in page.text


def test_before_the_first_trace_the_json_twin_and_health_answer(client):
    assert client.get("/api/overview").json() == {"app": None}
    assert client.get("/healthz").text == "ok\n"


def test_traffic_without_verdicts_is_not_a_rate(client, engine):
    row = {"bucket_start": int(NOW) - 600, "app": APP, "version": "1", "stratum": "normal_b0"}
    with engine.begin() as connection:
        storage.add_to_tally(
            connection, traffic_tally, [{**row, "outcome": "answered", "traces": 40.0, "received": 40}]
        )
    text = text_of(client.get("/").text)
    assert "Not enough judged yet to say: 0 verdicts, 30 are needed." in text
    assert "0 judged of 40 seen" in text


@pytest.mark.parametrize(("reason", "told"), [("no_content", True), ("cancelled", False)])
def test_requests_that_came_without_text_say_so_and_what_sends_it(client, engine, add_trace, reason, told):
    """Nothing waits then, and the number of verdicts stays 0 for ever: the reader must learn why."""
    trace_id = add_trace(query=None, answer=None)
    assert "holds no text" not in text_of(client.get("/").text)  # not read yet
    place = {"app": APP, "version": "1.4.2", "stratum": "normal_b0", "criterion": "any_failure", "judge": JUDGE}
    sums = dict.fromkeys(("weight", "fail_weight", "weight_sq", "missing_weight"), 0.0) | {"judged": 0, "failed": 0}
    row = {"bucket_start": int(NOW) - 60, **place, **sums, "not_applicable_weight": 1.0}
    verdict = {"criterion": "any_failure", "label": "not_applicable", "annotator_kind": "CODE", "identifier": JUDGE}
    detail = orjson.dumps({"reasons": [reason]}).decode()
    with engine.begin() as connection:
        storage.add_to_tally(connection, verdict_tally, [row])
        connection.execute(insert(judgements).values(trace_id=trace_id, judged_at=NOW, detail=detail, **verdict))
    text = text_of(client.get("/").text)
    assert ("What was read holds no text" in text) is told
    assert ('capture_content="text"' in text) is told


def test_a_rate_on_a_handful_of_verdicts_does_not_look_like_a_rate(client, add_trace):
    answer, source = "Up to 40 MB.", "An attachment may be 50 MB."
    claim = ClaimVerdict(answer, 0, len(answer), Verdict.CONTRADICTED, 0.95)
    add_trace(
        context=(Document("d1", 1, text=source),),
        answer=answer,
        judged=Assessment(JUDGE, AnnotatorKind.CODE, claims=(claim,)),
        finding=FaultFinding(FaultLayer.GENERATION, 0.9, "", ()),
    )
    page = client.get("/").text
    assert "Not enough judged yet to say: 1 verdict, 30 are needed." in text_of(page)
    assert "Too few verdicts to go by: 1 of the 30 needed." in text_of(page)
    assert 'class="big too-few"' in page
    assert "<strong>100 %</strong>" not in page
    # Everything was judged: an interval from 100 % to 100 % would claim to know the next answers too.
    assert "100–100" not in page
    assert "100 % all judged" in text_of(page)
    assert "nothing was left to chance, so there is no interval" in text_of(page)
    assert "Everything was judged, so here it is the same." in text_of(page)
    assert "not the rate that users meet" not in page


def test_a_rate_on_enough_verdicts_is_shown_as_one(client, world):
    page = client.get("/").text
    assert "too-few" not in page
    assert "Too few" not in page


def test_a_version_with_a_handful_of_verdicts_is_not_called_worse(client, world, add_trace):
    """One failure of one is 100 %, and no red "+100 pp"."""
    finding = FaultFinding(FaultLayer.GENERATION, 0.9, "", ())
    add_trace(version="1.6.0", judged=Assessment(JUDGE, AnnotatorKind.CODE), finding=finding)
    rows = re.findall(r"<tr>.*?</tr>", client.get("/").text, re.DOTALL)
    newest, before = (next(row for row in rows if f"<bdi>{name}</bdi>" in row) for name in ("1.6.0", "1.5.0"))
    assert "too few to say" in newest and " pp" not in newest and "worse" not in newest
    assert " pp" in before and "too few" not in before


@pytest.mark.parametrize(("path", "said"), [("/", "UTC"), ("/traces", "started, UTC")])
def test_the_time_zone_stands_beside_the_times(client, world, path, said):
    assert said in text_of(client.get(path).text).split("Times are UTC.")[0]


def test_no_result_has_no_answer_rather_than_a_lost_one(client, add_trace):
    trace_id = add_trace(outcome=Outcome.NO_RESULT, answer=None)
    text = text_of(client.get(f"/traces/{trace_id}").text)
    assert "No answer was given." in text
    assert "not captured" not in text


# Overview


def test_the_estimate_is_the_one_that_the_tallies_give(client, world):
    shown = client.get("/api/overview").json()
    sums = tallies.sums(world.engine, app=APP, criterion="any_failure", judge=JUDGE, since=NOW - 86_400)
    expected = estimate(sums)
    assert expected is not None
    assert shown["figure"]["rate"] == pytest.approx(expected.rate)
    assert shown["figure"]["low"] == pytest.approx(expected.low)
    assert shown["figure"]["high"] == pytest.approx(expected.high_shown)
    assert shown["figure"]["raw_mean"] == pytest.approx(expected.raw_mean)
    assert (shown["judged"], shown["completed"]) == (expected.judged, expected.traffic)


def test_each_version_has_its_own_estimate_which_covers_what_happened(client, world):
    for line in client.get("/api/overview").json()["versions"]:
        assert line["figure"]["low"] < world.true_rate[line["version"]] < line["figure"]["high"]
        sums = tallies.sums(
            world.engine, app=APP, criterion="any_failure", judge=JUDGE, version=line["version"], since=NOW - 86_400
        )
        alone = estimate(sums)
        assert alone is not None
        assert line["figure"]["rate"] == pytest.approx(alone.rate)


def test_the_page_names_the_bad_version_its_layer_and_the_raw_mean_for_what_it_is(client, world):
    text = text_of(client.get("/").text)
    assert re.search(r"Since version 1\.5\.0 about \d+ % \(\d+–\d+ %\) of answers fail, [\d.]+ % .* before", text)
    assert "most often at the rerank layer" in text
    assert "Mean of judged traces – not an estimate." in text
    assert re.search(r"\d+ judged of 2,\d+ seen", text)


def test_layers_match_the_tallies(client, world):
    shown = client.get("/api/overview").json()["layers"]
    expected = tallies.fault_layers(world.engine, app=APP, judge=JUDGE, since=NOW - 86_400)
    total = sum(layer.weight for layer in expected)
    assert [(s["layer"], s["judged"]) for s in shown] == [(e.layer, e.judged) for e in expected]
    assert [s["share"] for s in shown] == pytest.approx([e.weight / total for e in expected])


def test_outcomes_have_their_own_denominators(client, world):
    shown = {row["name"]: row for row in client.get("/api/overview").json()["outcomes"]}
    seen = shown["cancelled"]["of"]
    assert seen == 2400
    assert shown["failed to run"]["of"] == seen - shown["cancelled"]["count"]
    assert shown["refused"]["of"] == shown["failed to run"]["of"] - shown["failed to run"]["count"]
    parts = ("answered", "answered in part", "no result", "not recorded", "refused")
    assert sum(shown[name]["count"] for name in parts) == shown["answered"]["of"]


def test_a_version_in_the_address_narrows_everything(client, world):
    shown = client.get("/api/overview", params={"version": "1.4.2"}).json()
    assert [line["version"] for line in shown["versions"]] == ["1.4.2"]
    assert shown["figure"]["rate"] < 0.15


def test_a_window_without_traffic_is_answered(client, world):
    page = client.get("/", params={"window": "15m"})
    assert page.status_code == 200
    assert "seen" in page.text


@pytest.mark.parametrize("query", ["app=nope&version=%00&criterion=x&judge=y&window=1y", "window=", "app="])
def test_an_odd_address_falls_back_to_what_there_is(client, world, query):
    assert client.get(f"/?{query}").status_code == 200
    assert client.get(f"/api/overview?{query}").json()["app"] == APP


def test_latency_is_over_all_completed_requests(client, world):
    whole, first = client.get("/api/overview").json()["latency"]
    shown = client.get("/api/overview").json()
    assert whole["n"] == shown["completed"]
    assert whole["p50"] < whole["p95"]
    assert first["p50"] < whole["p50"]


# Trace list


def listed(page: str) -> list[str]:
    return re.findall(r'data-row href="/traces/([0-9a-f]{32})', page)


def all_listed(client: TestClient, query: str = "") -> list[str]:
    found: list[str] = []
    address = f"/traces?{query}"
    while address:
        page = client.get(address).text
        found += listed(page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        address = following[1].replace("&amp;", "&") if following else ""
    return found


@pytest.mark.parametrize("sort", ["newest", "worst"])
def test_paging_shows_each_trace_once_whatever_the_order(engine, world, sort):
    client = client_for(engine, page_size=700)
    found = all_listed(client, f"sort={sort}")
    assert len(found) == len(set(found)) == len(world.sampled) + len(world.not_sampled)


def test_filters_find_what_they_name(client, world):
    assert set(all_listed(client, "verdict=fail")) == set(world.failed)
    assert set(all_listed(client, "feedback=negative")) == set(world.complained)
    assert set(all_listed(client, "verdict=fail&layer=rerank")) < set(world.failed)
    assert set(all_listed(client, "verdict=pass&layer=rerank")) == set()
    assert listed(client.get("/traces?outcome=timeout&version=1.5.0").text)


def test_a_verdict_is_found_on_the_criterion_that_an_alert_speaks_of(client, engine, world):
    wanted = next(trace for trace in world.sampled if trace not in world.failed)
    before = set(all_listed(client, "verdict=fail&criterion=citations"))
    say(engine, wanted, "fail")
    assert set(all_listed(client, "verdict=fail&criterion=citations")) == before | {wanted}
    assert set(all_listed(client, "verdict=fail&criterion=any_failure")) == set(world.failed)
    assert '<option value="citations" selected>' in client.get("/traces?verdict=fail&criterion=citations").text
    say(engine, wanted, "pass")  # the last word counts
    assert set(all_listed(client, "verdict=fail&criterion=citations")) == before - {wanted}


def say(engine: Engine, trace_id: str, label: str) -> None:
    values = {"criterion": "citations", "label": label, "annotator_kind": "CODE", "identifier": JUDGE}
    with engine.begin() as connection:
        connection.execute(insert(judgements).values(trace_id=trace_id, judged_at=NOW, **values))


def test_search_finds_text_of_sampled_traces_literally(client, world, add_trace):
    wanted = add_trace(0xAAA, query="what does 100%_sure mean")
    assert listed(client.get("/traces", params={"q": "100%_SURE"}).text) == [wanted]
    assert listed(client.get("/traces", params={"q": "最大能传"}).text)


@pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)
def test_the_newest_of_a_version_are_read_without_sorting_all_of_them(engine):
    asked: list[tuple[str, Any]] = []
    with engine.connect() as connection:
        event.listen(engine, "before_cursor_execute", lambda *what: asked.append((what[2], what[3])))
        queries.trace_rows(connection, queries.TraceFilter(app="shop", version="v1"), 50)
        statement, values = asked[-1]
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
    steps = [row.detail for row in plan]
    assert any("ix_ledger_app_version_started_at" in step for step in steps)
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps, steps


def test_worst_first_begins_with_failures_that_users_complained_of(client, world):
    first = listed(client.get("/traces?sort=worst").text)[:20]
    assert set(first) <= set(world.failed) & set(world.complained)


def test_what_was_not_sampled_is_listed_and_says_so(client, world):
    page = client.get("/traces?verdict=not_sampled&stratum=normal_b0").text
    assert set(listed(page)) <= set(world.not_sampled)
    assert "counted only; its text was not kept" in page
    alone = text_of(client.get(f"/traces/{listed(page)[0]}").text)
    assert "It had a chance of 0.04 to be drawn" in alone


@pytest.mark.parametrize("after", ["x", "1~2", "nan~nan~" + "0" * 32, "a~b~" + "0" * 32])
def test_an_odd_cursor_is_no_error(client, world, after):
    assert client.get("/traces", params={"after": after}).status_code == 200


# Trace page


def trace_with_claims(add_trace: Any) -> str:
    answer = "Up to 50 MB. It syncs hourly."
    text = "On Team, files up to 50 MB are accepted."
    claims = (
        ClaimVerdict(answer[:12], 0, 12, Verdict.SUPPORTED, 0.05, "", (Evidence("a", 9, 26, text[9:26]),)),
        ClaimVerdict(answer[13:], 13, len(answer), Verdict.CONTRADICTED, 0.97, "number_conflict"),
    )
    return str(
        add_trace(
            answer=answer,
            candidates=(Document("b", 1, 3.0, "other"), Document("a", 2, 2.0, text)),
            context=(Document("a", 1, 0.9, text),),
            judged=Assessment(JUDGE, AnnotatorKind.CODE, claims),
        )
    )


def test_claims_carry_their_verdict_in_words_and_the_passage_beside_them(client, add_trace):
    page = client.get(f"/traces/{trace_with_claims(add_trace)}").text
    assert re.search(r'class="claim claim-contradicted" id="said-2" title="contradicted">It syncs hourly\.', page)
    assert '<mark class="quote" title="passage">files up to 50 MB</mark>' in page
    assert "number conflict" in page
    assert "No passage was found for it." in page


def test_the_rank_flow_shows_what_was_dropped_and_what_a_verdict_rests_on(client, add_trace):
    page = client.get(f"/traces/{trace_with_claims(add_trace)}").text
    assert re.search(r'flow-row dropped">\s*<span class="flow-rank">1', page)
    assert re.search(r'flow-row evidence">\s*<span class="flow-rank">2', page)
    assert 'class="flow-line evidence"' in page
    assert "Reranked" not in page  # it was not recorded, which is not the same as empty


@pytest.mark.parametrize(
    "detail",
    [
        "{}",
        "not json",
        "[1]",
        '{"claims": [{}, 5, {"start": "x", "evidence": [{}, null]}], "fault": {"layer": "rerank"}}',
        '{"claims": [{"text": null, "start": -5, "end": 99999, "verdict": "NEW"}], "fault": 7, "reasons": {}}',
        '{"context_relevance": "x", "candidate_relevance": [null, "y"], "answer_relevance": "z"}',
    ],
)
def test_a_judgement_with_an_odd_detail_does_not_break_the_page(client, engine, add_trace, detail):
    trace_id = add_trace(candidates=(Document("a", 1),), context=None, answer=None)
    values = {
        "criterion": "any_failure",
        "label": "fail",
        "annotator_kind": "LLM",
        "identifier": "m",
        "judged_at": NOW,
    }
    with engine.begin() as connection:
        connection.execute(insert(judgements).values(trace_id=trace_id, detail=detail, **values))
    assert client.get(f"/traces/{trace_id}").status_code == 200
    assert client.get("/traces").status_code == 200
    assert client.get("/review").status_code == 200


def test_a_trace_with_nothing_captured_says_so(client, add_trace):
    trace_id = add_trace(query=None, answer=None, candidates=None, context=None, outcome=Outcome.ERROR)
    text = text_of(client.get(f"/traces/{trace_id}").text)
    assert text.count("The text was not captured.") == 2


@pytest.mark.parametrize("path", ["/traces/" + "f" * 32, "/traces/..%2f..%2fetc", "/candidates/rc_0", "/nope"])
def test_what_is_not_there_is_a_404_page(client, path):
    page = client.get(path)
    assert page.status_code == 404
    assert "Groundwatch" in page.text


# Review and candidates


def test_the_queue_begins_with_judged_failures_that_users_complained_of(client, world):
    with storage.reader(world.engine).connect() as connection:
        queue = review_queue.read(connection, APP, 500)
    both = [set(item.why) >= {"complained"} for item in queue]
    assert both == sorted(both, reverse=True)
    assert {item.trace_id for item in queue} == set(world.failed)
    text = text_of(client.get("/review").text)
    assert f"1 of {len(queue)}" in text.replace(",", "") or "1 of 200" in text
    assert "its user complained" in text


def test_a_notice_in_the_address_is_made_of_checked_words_only(client, world):
    page = client.get("/review", params={"done": "confirm", "candidate": "rc_<b>", "trace": "//evil.example"}).text
    assert "Failure confirmed." in page
    assert "evil.example" not in page
    assert "rc_" not in page
    assert 'role="status">' not in client.get("/review", params={"done": "<b>"}).text


def test_an_item_can_be_addressed_and_leads_to_its_neighbours(client, world):
    with storage.reader(world.engine).connect() as connection:
        ids = [item.trace_id for item in review_queue.read(connection, APP, 5)]
    page = client.get("/review", params={"item": ids[2]}).text
    assert f'data-key="k" href="/review?app={APP}&amp;item={ids[1]}"' in page
    assert f'data-key="j" href="/review?app={APP}&amp;item={ids[3]}"' in page


def test_an_item_behind_those_listed_is_the_one_shown_and_another_is_never_passed_off_as_it(engine, world):
    client = client_for(engine, queue_limit=2)
    with storage.reader(world.engine).connect() as connection:
        last = review_queue.read(connection, APP, 500)[-1]
    page = client.get("/review", params={"item": last.trace_id}).text
    assert f'action="/traces/{last.trace_id}/decision"' in page
    assert "does not wait here" not in page
    passed = next(name for name in world.sampled if name not in {*world.failed, *world.complained})
    assert "does not wait here" in client.get("/review", params={"item": passed}).text
    assert "does not wait here" not in client.get("/review").text


def test_confirming_makes_a_redacted_candidate_and_goes_on_to_the_next(client, engine, world):
    trace_id, following = world.failed[0], world.failed[1]
    answer = post(
        client,
        f"/traces/{trace_id}/decision",
        decision="confirm",
        fault_layer="rerank",
        note="cut off",
        back="review",
        next=following,
        app=APP,
    )
    assert answer.status_code == 303
    assert f"item={following}" in answer.headers["location"]
    with engine.connect() as connection:
        review = connection.execute(select(reviews)).one()
        candidate = connection.execute(select(candidates)).one()
    assert (review.decision, review.fault_layer, review.note) == ("confirmed", "rerank", "cut off")
    assert re.fullmatch(r"rv_[0-9a-f]{16}", review.reviewer)
    assert candidate.trace_id == trace_id
    assert f"candidate={candidate.candidate_id}" in answer.headers["location"]
    assert "Failure confirmed." in client.get(answer.headers["location"]).text


def test_quarantined_complaints_do_not_fill_the_queue(engine, world):
    with engine.begin() as connection:
        before = [item.why for item in review_queue.read(connection, APP, 500)]
        connection.execute(update(feedback).values(quarantined=True))
        after = [item.why for item in review_queue.read(connection, APP, 500)]
    assert any({"complained", "complained_but_passed"} & set(why) for why in before)
    assert not any({"complained", "complained_but_passed"} & set(why) for why in after)


def test_rejecting_takes_the_trace_out_of_the_queue_and_makes_no_candidate(client, engine, world):
    trace_id = world.failed[0]
    assert post(client, f"/traces/{trace_id}/decision", decision="reject", back="review").status_code == 303
    with storage.reader(engine).connect() as connection:
        assert trace_id not in [item.trace_id for item in review_queue.read(connection, APP, 500)]
        assert connection.execute(select(candidates)).all() == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"decision": "confirm", "fault_layer": "<b>"}, "fault layer"),
        ({"decision": "delete"}, "accepted: confirm, reject"),
        ({}, "accepted: confirm, reject"),
        ({"decision": "confirm", "fault_layer": "rerank", "note": "x" * 5000}, "5000"),
    ],
)
def test_a_decision_that_cannot_be_recorded_is_a_400_that_says_why(client, engine, world, fields, said):
    answer = post(client, f"/traces/{world.failed[0]}/decision", **fields)
    assert answer.status_code == 400
    assert said in answer.text
    with engine.connect() as connection:
        assert connection.execute(select(reviews)).all() == []


def make_candidate(client: TestClient, trace_id: str) -> str:
    answer = post(client, f"/traces/{trace_id}/decision", decision="confirm", fault_layer="rerank", back="trace")
    return str(answer.headers["location"]).removeprefix("/candidates/")


def test_a_candidate_shows_placeholders_and_not_the_personal_data(client, add_trace):
    trace_id = add_trace(query="mail me at jane.doe@example.org please", answer="Sent to jane.doe@example.org.")
    page = client.get(f"/candidates/{make_candidate(client, trace_id)}").text
    assert '<mark class="placeholder" title="replaced by redaction">[[' in page
    assert "jane.doe" not in page


def test_nothing_leaves_without_the_tick(client, engine, world):
    candidate_id = make_candidate(client, world.failed[0])
    answer = post(client, f"/candidates/{candidate_id}/decision", decision="confirm")
    assert answer.status_code == 400
    assert "tick that you have read" in answer.text
    empty = post(client, "/candidates/export")
    assert "No candidate may leave yet" in empty.text
    assert "unconfirmed" in empty.text


def test_a_ticked_candidate_is_a_line_of_the_download(client, engine, world):
    # The hold-out set is not for downloads: take failures until one of the development set is at hand.
    for trace_id in world.failed[:12]:
        candidate_id = make_candidate(client, trace_id)
        ticked = {"decision": "confirm", "read": "yes", "revision": "1"}
        answer = post(client, f"/candidates/{candidate_id}/decision", **ticked)
        assert answer.status_code == 303 or "redaction is in doubt" in answer.text
    answer = post(client, "/candidates/export")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert re.search(r'filename="groundwatch-candidates-[0-9TZ-]+\.jsonl"', answer.headers["content-disposition"])
    lines = [orjson.loads(line) for line in answer.text.splitlines()]
    assert lines
    assert not any(trace_id in answer.text for trace_id in world.sampled)
    with engine.connect() as connection:
        exported = connection.execute(select(candidates.c.candidate_id).where(candidates.c.exported_at.is_not(None)))
        assert {row.candidate_id for row in exported} == {line["candidate_id"] for line in lines}


def test_a_rejected_candidate_says_so(client, world):
    candidate_id = make_candidate(client, world.failed[0])
    post(client, f"/candidates/{candidate_id}/decision", decision="reject")
    assert "Rejected by a person." in text_of(client.get(f"/candidates/{candidate_id}").text)


def test_without_a_key_confirming_makes_no_candidate_and_the_page_says_why(engine, world):
    app = console_app(engine, ConsoleConfig(), now=lambda: NOW)
    client = TestClient(app, base_url=ORIGIN)
    answer = post(client, f"/traces/{world.failed[0]}/decision", decision="confirm", fault_layer="rerank")
    assert answer.headers["location"] == f"/traces/{world.failed[0]}?done=confirm"
    assert "no candidate key" in client.get("/candidates").text


def test_a_damaged_payload_is_a_500_page_without_its_text(engine, add_trace):
    trace_id = add_trace(query="secret-question-text")
    with engine.begin() as connection:
        damaged = '{"query": "secret-question-text"}'
        connection.execute(
            sampled_traces.update().where(sampled_traces.c.trace_id == trace_id).values(payload=damaged)
        )
    client = TestClient(
        console_app(engine, ConsoleConfig(), now=lambda: NOW), base_url=ORIGIN, raise_server_exceptions=False
    )
    page = client.get(f"/traces/{trace_id}")
    assert page.status_code == 500
    assert "secret-question-text" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")


def test_completed_outcomes_are_those_of_the_collector():
    assert set(queries.COMPLETED) == {str(outcome) for outcome in ragtrace.COMPLETED}
