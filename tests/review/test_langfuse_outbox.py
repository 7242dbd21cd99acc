"""The outbox, with the real client of Langfuse over real HTTP to a server that records: at least once, once each."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from exportable import NOW, POLICY, REVIEWER, add, make_trace, questions
from langfuse.api import LangfuseAPI
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, insert, select, update

from groundwatch_collector.storage import open_engine
from groundwatch_deploy import cli, migrations
from groundwatch_review import candidates as desk
from groundwatch_review import outbox as boxes
from groundwatch_review.erasure import erase
from groundwatch_review.langfuse import KeysRefused, Langfuse, Sent, send
from groundwatch_review.outbox import OutboxPolicy
from groundwatch_review.outbox_metrics import OutboxCollector
from groundwatch_review.tables import candidates, outbox
from groundwatch_scorer.tables import judgements

TIMES = {"createdAt": "2025-01-01T00:00:00Z", "updatedAt": "2025-01-01T00:00:00Z"}


class Tool:
    """Langfuse as far as we use it: items and scores by id, datasets by name; `answers` come first."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, Any]] = {}
        self.scores: dict[str, dict[str, Any]] = {}
        self.datasets: set[str] = set()
        self.calls: Counter[str] = Counter()
        self.answers: list[
            int
        ] = []  # status of the next calls that write; 0: the connection breaks after the writing
        tool = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                status, body = tool.take(self.command, self.path, json.loads(self.rfile.read(length) or b"null"))
                if status == 0:
                    self.close_connection = True
                    return
                said = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815 (the names that the server looks for)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, verb: str, path: str, body: Any) -> tuple[int, Any]:
        kind, _, name = path.removeprefix("/api/public/").removeprefix("v2/").partition("/")
        self.calls[f"{verb} {kind}"] += 1
        if kind == "datasets":
            return self._dataset(verb, name, body)
        status = self.answers.pop(0) if self.answers else 200
        if status >= 400:
            return status, {"message": f"refused: {body}", "error": "x"}
        if kind == "scores":
            self.scores.update({score["id"]: score for score in body})
            return (status and 202), {"message": "Accepted"}
        if verb == "DELETE":
            found = self.items.pop(name, None)
            return (200 if found else 404), {"message": "deleted"}
        self.items[body["id"]] = body
        extra = {"datasetId": "d", "mediaReferences": []}
        return status, {"input": None, "expectedOutput": None, "metadata": None, **body, **TIMES, **extra}

    def _dataset(self, verb: str, name: str, body: Any) -> tuple[int, Any]:
        if verb == "POST":
            self.datasets.add(name := body["name"])
        if name not in self.datasets:
            return 404, {"message": "not found", "error": "x"}
        return 200, {"id": "d", "name": name, "projectId": "p", "metadata": None, **TIMES}


on_sqlite = pytest.mark.parametrize("new_database", ["sqlite"], indirect=True)  # its statements are tried above


@pytest.fixture
def tool() -> Iterator[Tool]:
    made = Tool()
    threading.Thread(target=made.server.serve_forever, daemon=True).start()
    yield made
    made.server.shutdown()
    made.server.server_close()


class Clock:
    time = NOW

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


def run(engine: Engine, tool: Tool, clock: Clock, **options: Any) -> Sent:
    client = LangfuseAPI(base_url=tool.url, username="pk", password="sk", timeout=5)
    options = {"policy": POLICY, "jitter": random.Random(1), **options}
    return send(engine, Langfuse(client, "langfuse:test"), clock, **options)


def filled(engine: Engine, count: int = 3) -> list[str]:
    return [add(engine, make_trace(number, text)) for number, text in enumerate(questions("DEV", count), 1)]


def test_every_candidate_is_there_once_and_again_costs_nothing(engine: Engine, tool: Tool, clock: Clock) -> None:
    ids = filled(engine)
    hidden = add(engine, make_trace(9, questions("HOLDOUT", 1)[0]))
    first = run(engine, tool, clock)
    assert (first.done, first.states, first.held, first.is_complete) == (
        {"sent": 3},
        {"sent": 3},
        {"holdout": 1},
        True,
    )
    assert set(tool.items) == set(ids)
    assert tool.datasets == {"groundwatch-dev"}
    assert not any("sourceTraceId" in item for item in tool.items.values())
    before = Counter(tool.calls)
    assert run(engine, tool, clock).done == {}
    assert tool.calls == before
    assert run(engine, tool, clock, holdout=True).done == {"sent": 1}
    assert tool.items[hidden]["datasetName"] == "groundwatch-holdout"
    assert run(engine, tool, clock).done == {}  # without the option it stays where it is
    with engine.connect() as connection:
        assert None not in list(connection.scalars(select(candidates.c.exported_at)))


@on_sqlite
def test_what_broke_is_sent_again_later_under_the_same_id(engine: Engine, tool: Tool, clock: Clock) -> None:
    ids = filled(engine)
    tool.answers = [0, 500]  # taken, but the answer is lost; then out of order
    first = run(engine, tool, clock)
    assert first.done == {"sent": 1, "tool_failed": 1, "unreachable": 1}
    assert (first.states, first.is_complete) == ({"sent": 1, "waiting": 2}, False)
    assert run(engine, tool, clock).done == {}  # not before its pause is over
    clock.time += 60
    assert run(engine, tool, clock).done == {"sent": 2}
    assert set(tool.items) == set(ids)
    assert tool.calls["POST dataset-items"] == 5


def test_a_crash_between_sending_and_writing_it_down_sends_once_more(
    engine: Engine, tool: Tool, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(engine, 1)
    with monkeypatch.context() as broken:
        broken.setattr(boxes, "_finish", lambda *_arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(engine, tool, clock)
    with engine.connect() as connection:  # whoever erases it now is told that it left
        assert None not in list(connection.scalars(select(candidates.c.exported_at)))
    clock.time += 60
    assert run(engine, tool, clock).states == {"sent": 1}
    assert (len(tool.items), tool.calls["POST dataset-items"]) == (1, 2)


@on_sqlite
def test_a_tool_that_is_away_is_not_asked_for_all_and_in_the_end_given_up(
    engine: Engine, tool: Tool, clock: Clock
) -> None:
    filled(engine, 3)
    tool.answers = [503] * 100
    policy = OutboxPolicy(most_attempts=2, most_troubles=2)
    for done in ({"tool_failed": 2}, {"tool_failed": 2}, {"tool_failed": 2}):
        last = run(engine, tool, clock, outbox_policy=policy)
        assert last.done == done
        clock.time += 4_000
    assert last.states == {"failed:tool_failed": 3}
    tool.answers = []
    assert run(engine, tool, clock).done == {}
    assert boxes.retry_failed(engine, "langfuse:test", clock()) == 3
    assert run(engine, tool, clock).done == {"sent": 3}


@on_sqlite
def test_what_waits_and_what_failed_is_seen_in_the_metrics(engine: Engine, tool: Tool, clock: Clock) -> None:
    registry, scraped_at = CollectorRegistry(), 0.0
    registry.register(OutboxCollector(engine, clock=lambda: scraped_at))

    def entries() -> dict[tuple[str, str], float]:
        (family,) = (one for one in registry.collect() if one.name == "groundwatch_outbox_entries")
        assert {(sample.labels["tool"], sample.labels["kind"]) for sample in family.samples} <= {("langfuse", "item")}
        return {(sample.labels["state"], sample.labels["reason"]): sample.value for sample in family.samples}

    assert entries() == {}
    filled(engine, 3)
    tool.answers = [400, 503, 503]
    run(engine, tool, clock, outbox_policy=OutboxPolicy(most_troubles=2))
    scraped_at += 60
    assert entries() == {("failed", "refused"): 1, ("waiting", ""): 2}
    clock.time += 60
    run(engine, tool, clock)
    scraped_at += 60
    assert entries() == {("failed", "refused"): 1, ("sent", ""): 2}


@on_sqlite
def test_what_the_tool_refuses_is_not_repeated_until_it_changes(engine: Engine, tool: Tool, clock: Clock) -> None:
    (name,) = filled(engine, 1)
    tool.answers = [400]
    refused = run(engine, tool, clock)
    assert (refused.done, refused.states) == ({"refused": 1}, {"failed:refused": 1})
    clock.time += 9_000
    assert run(engine, tool, clock).done == {}
    with engine.begin() as connection:
        document = json.loads(connection.scalar(select(candidates.c.document)) or "")
        document["expectation"]["reference_answer"] = "Up to 20 MB."
        connection.execute(update(candidates).values(document=json.dumps(document)))
    assert run(engine, tool, clock).done == {"sent": 1}
    assert tool.items[name]["expectedOutput"]["answer"] == "Up to 20 MB."


@on_sqlite
def test_keys_that_are_refused_end_the_run_and_give_nothing_up(engine: Engine, tool: Tool, clock: Clock) -> None:
    filled(engine)
    tool.answers = [401]
    with pytest.raises(KeysRefused, match="HTTP 401"):
        run(engine, tool, clock)
    clock.time += 60
    assert run(engine, tool, clock).states == {"sent": 3}


def test_what_was_erased_or_rejected_is_taken_back(engine: Engine, tool: Tool, clock: Clock) -> None:
    ids = filled(engine)
    run(engine, tool, clock)
    erase(engine, [f"{1:032x}"], NOW)
    desk.reject(engine, ids[1], REVIEWER, NOW)
    assert run(engine, tool, clock).done == {"removed": 2}
    assert set(tool.items) == {ids[2]}
    desk.confirm(engine, ids[1], REVIEWER, NOW, policy=POLICY)
    assert run(engine, tool, clock).done == {"sent": 1}
    del tool.items[ids[2]]  # somebody removed it there by hand
    erase(engine, [f"{3:032x}"], NOW)
    assert run(engine, tool, clock).done == {"removed": 1}
    assert set(tool.items) == {ids[1]}


@on_sqlite
def test_what_is_erased_while_a_run_sends_does_not_leave(
    engine: Engine, tool: Tool, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, take = filled(engine), tool.take

    def erasing(verb: str, path: str, body: Any) -> tuple[int, Any]:
        answer = take(verb, path, body)
        if path.endswith("dataset-items") and len(tool.items) == 1:
            erase(engine, [f"{n:032x}" for n, one in enumerate(ids, 1) if one not in tool.items], NOW)
        return answer

    monkeypatch.setattr(tool, "take", erasing)
    done = run(engine, tool, clock).done
    assert (done["sent"], done["gone"]) == (1, 2)
    assert tool.calls["POST dataset-items"] == len(tool.items) == 1


@on_sqlite
def test_a_run_that_would_take_nearly_all_back_asks_first(engine: Engine, clock: Clock) -> None:
    """As one with the wrong configuration would: without consent nothing may leave."""
    wanted = {f"rc_{number}": "digest" for number in range(12)}
    boxes.plan_items(engine, "tool", wanted, NOW)
    boxes.drain(engine, "tool", lambda entry: wanted[entry.item], clock, jitter=random.Random(1))
    with pytest.raises(boxes.TooManyRemovals, match="12 of 12"):
        boxes.plan_items(engine, "tool", {}, NOW)
    assert boxes.states(engine, "tool") == {"sent": 12}
    boxes.plan_items(engine, "tool", {}, NOW, remove_many=True)
    assert boxes.states(engine, "tool") == {"removing": 12}


@on_sqlite
def test_no_more_waits_than_the_bound_and_the_rest_is_counted(engine: Engine, tool: Tool, clock: Clock) -> None:
    filled(engine, 3)
    small = OutboxPolicy(most_waiting=2)
    first = run(engine, tool, clock, outbox_policy=small)
    assert (first.done, first.not_planned, first.is_complete) == ({"sent": 2}, 1, False)
    assert run(engine, tool, clock, outbox_policy=small).done == {"sent": 1}


def verdict(engine: Engine, number: int, **changes: Any) -> None:
    row = {
        "trace_id": f"{number:032x}", "criterion": "any_failure", "label": "fail", "score": 0.2,
        "explanation": "secret", "annotator_kind": "CODE", "identifier": "local-v1",
        "judged_at": NOW - 1000, "detail": "{}", "cost_usd": None,
    }  # fmt: skip
    with engine.begin() as connection:
        connection.execute(insert(judgements).values(**{**row, **changes}))


@on_sqlite
def test_verdicts_are_sent_as_scores_once_each_and_without_a_word(engine: Engine, tool: Tool, clock: Clock) -> None:
    for number in (1, 2):
        verdict(engine, number)
    verdict(engine, 3, annotator_kind="HUMAN", identifier="reviewer:rv_00000000", score=None)
    verdict(engine, 4, judged_at=NOW)  # too fresh: another one may still come before it
    erase(engine, [f"{2:032x}"], NOW)
    tool.answers = [0]
    assert run(engine, tool, clock, scores=True).done == {"gone": 1, "sent": 1, "unreachable": 1}
    clock.time += 400
    assert run(engine, tool, clock, scores=True).done == {"sent": 2}
    assert run(engine, tool, clock, scores=True).done == {}
    assert sorted(score["traceId"] for score in tool.scores.values()) == [f"{number:032x}" for number in (1, 3, 4)]
    sent = json.dumps(tool.scores)
    assert "secret" not in sent
    assert "rv_" not in sent
    assert {score["value"] for score in tool.scores.values()} == {"fail"}
    with engine.connect() as connection:
        assert list(connection.execute(select(outbox))) == []


def test_the_command_sends_and_says_what_is_missing(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'groundwatch.db'}")
    migrations.upgrade(engine)
    for number, text in enumerate(questions("DEV", 2), 1):
        add(engine, make_trace(number, text), at=Clock.time + 3e8)
    engine.dispose()
    arguments = ["send", "langfuse", "--url", tool.url, "--data-dir", str(tmp_path), "--json"]
    for name in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert cli.main(arguments) == 2
    assert "LANGFUSE_SECRET_KEY" in capsys.readouterr().err
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk-canary")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-canary")
    tool.answers = [413, 200]  # repeats the body, as every error of this tool does
    assert cli.main(arguments) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["states"] == {"failed:refused": 1, "sent": 1}
    assert "canary" not in said.out + said.err
    assert "files" not in said.out + said.err
    assert cli.main([*arguments, "--retry-failed"]) == 0
    assert len(tool.items) == 2
