"""Verdicts leave as OpenTelemetry events that name their span, over real HTTP, from a database of a real monitor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from span_receiver import Receiver
from sqlalchemy import insert

from groundwatch_collector.storage import open_engine
from groundwatch_deploy.cli import main
from groundwatch_scorer.tables import judgements

DATA = Path(__file__).parents[1] / "collector" / "data"
RECORDED = ("openinference-haystack-normal", "otel-genai-langchain-refusal", "openinference-llamaindex-error")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a monitor that judged three requests, and one of a person's verdicts."""
    made = tmp_path_factory.mktemp("judged")
    assert main(["replay", *(str(DATA / f"{name}.pb.gz") for name in RECORDED), "--data-dir", str(made)]) == 0
    engine = open_engine(f"sqlite:///{made / 'groundwatch.db'}")
    with engine.begin() as connection:
        trace_id = connection.exec_driver_sql("SELECT min(trace_id) FROM sampled_traces").scalar_one()
        verdict = {"criterion": "any_failure", "label": "fail", "annotator_kind": "HUMAN", "identifier": "ann@shop"}
        connection.execute(
            insert(judgements), {**verdict, "trace_id": trace_id, "judged_at": 9.0, "explanation": "no"}
        )
    engine.dispose()
    return made


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def send(receiver: Receiver, folder: Path, *more: str) -> int:
    return main(["evaluations", "--endpoint", receiver.url, "--data-dir", str(folder), "--json", *more])


def events(receiver: Receiver) -> list[tuple[dict[str, Any], Any, str]]:
    """Attributes, record and service of each event that was received."""
    found = []
    for path, body in receiver.bodies:
        assert path == "/v1/logs"
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
            service = {pair.key: pair.value.string_value for pair in resource.resource.attributes}["service.name"]
            for scope in resource.scope_logs:
                found += [(plain(record.attributes), record, service) for record in scope.log_records]
    return found


def plain(attributes: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}


def test_every_verdict_is_sent_once_beside_the_span_that_it_is_about(receiver, folder, capsys):
    assert send(receiver, folder) == 0
    told = json.loads(capsys.readouterr().out)
    found = events(receiver)
    assert told["sent"] == len(found) > 10
    assert len({attributes["groundwatch.evaluation.id"] for attributes, _r, _s in found}) == len(found)
    assert {service for _a, _r, service in found} == {name.rpartition("-")[0] for name in RECORDED}
    spans = recorded_spans()
    for attributes, record, _service in found:
        assert record.event_name == "gen_ai.evaluation.result"
        assert record.span_id.hex() in spans[record.trace_id.hex()]
        assert attributes["groundwatch.inclusion_probability"] == 1.0
        label = attributes["gen_ai.evaluation.score.label"]
        if attributes["gen_ai.evaluation.name"] == "any_failure" and label in ("pass", "fail"):
            assert attributes["gen_ai.evaluation.score.value"] == (label == "fail")
        elif label in ("pass", "fail"):
            assert 0 <= attributes["gen_ai.evaluation.score.value"] <= 1
        else:
            assert "gen_ai.evaluation.score.value" not in attributes
        assert "gen_ai.evaluation.explanation" not in attributes
    assert {"any_failure", "faithfulness"} <= {attributes["gen_ai.evaluation.name"] for attributes, _r, _s in found}


def recorded_spans() -> dict[str, set[str]]:
    import gzip

    from groundwatch_collector import otlp

    found: dict[str, set[str]] = {}
    for name in RECORDED:
        for span in otlp.decode(gzip.decompress((DATA / f"{name}.pb.gz").read_bytes()), "protobuf").spans:
            found.setdefault(span.trace_id, set()).add(span.span_id)
    return found


def test_a_person_is_not_named_and_a_judge_is(receiver, folder):
    send(receiver, folder, "--with-explanations")
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for attributes, _record, _service in events(receiver):
        by_kind.setdefault(attributes["groundwatch.evaluation.annotator_kind"], []).append(attributes)
    (person,) = by_kind.pop("HUMAN")  # who says "fail" of any_failure, without a number
    assert (person["gen_ai.evaluation.score.value"], person["gen_ai.evaluation.explanation"]) == (1.0, "no")
    assert "ann@shop" not in repr(person)
    assert all(found["groundwatch.evaluation.judge"] for kind in by_kind.values() for found in kind)
    assert any("gen_ai.evaluation.explanation" in found for kind in by_kind.values() for found in kind)


def test_it_goes_on_after_an_id_and_says_where_it_was_stopped(receiver, folder, capsys, monkeypatch):
    monkeypatch.setattr("groundwatch_deploy.evaluations_command.BATCH", 5)
    receiver.statuses = [200, 503]
    assert send(receiver, folder) == 1
    said = capsys.readouterr()
    last = json.loads(said.out)["last_id"]
    assert f"after id {last}: HTTP 503" in said.err and receiver.url not in said.err
    assert send(receiver, folder, "--after", str(last)) == 0
    ids = [attributes["groundwatch.evaluation.id"] for attributes, _r, _s in events(receiver)]
    assert sorted(ids) == list(range(1, max(ids) + 1))


def test_a_key_is_sent_and_never_said(receiver, folder, capsys, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20canary-key")
    receiver.statuses = [401]
    assert send(receiver, folder) == 1
    assert receiver.headers[0]["authorization"] == "Bearer canary-key"
    assert "canary-key" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("endpoint", ["ftp://host", "host:4318", "file:///etc/passwd", ""])
def test_an_address_that_is_none_is_refused_with_what_is_accepted(folder, capsys, endpoint):
    assert main(["evaluations", "--endpoint", endpoint, "--data-dir", str(folder)]) == 2
    assert "http://HOST:PORT" in capsys.readouterr().err


def test_a_redirect_is_not_followed(receiver, folder, capsys):
    receiver.statuses = [307]
    assert send(receiver, folder) == 1
    assert "HTTP 307" in capsys.readouterr().err and receiver.asked == 1
