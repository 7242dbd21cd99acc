"""`groundwatch inspect` on a file and on a deployment, as a newcomer reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundwatch_deploy.cli import main
from groundwatch_review.audit import AuditLog

QUESTION, ANSWER = "How long is a loan?", "Loans last 21 days [1]."
TRACE_ID = "ab" * 16


def span(number: int, parent: int, name: str, **attributes: object) -> dict[str, object]:
    return {
        "traceId": TRACE_ID,
        "spanId": f"{number:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": name,
        "startTimeUnixNano": str(10**18 + number * 10**6),
        "endTimeUnixNano": str(10**18 + 10**9),
        "attributes": [{"key": key, "value": {"stringValue": str(value)}} for key, value in attributes.items()],
    }


@pytest.fixture
def recording(tmp_path) -> Path:
    """A chain with a retriever and a model call, as OpenInference writes them, without scores and usage."""
    documents = {
        "retrieval.documents.0.document.id": "d1",
        "retrieval.documents.0.document.content": "Loans last 21 days.",
    }
    prompt = "Context:\n[1] Loans last 21 days.\nQuestion: " + QUESTION
    kind = "openinference.span.kind"
    spans = [
        span(1, 0, "rag", **{kind: "CHAIN", "input.value": QUESTION, "output.value": ANSWER}),
        span(2, 1, "search", **{kind: "RETRIEVER", "input.value": QUESTION, **documents}),
        span(3, 1, "llm", **{kind: "LLM", "llm.input_messages.0.message.content": prompt, "output.value": ANSWER}),
    ]
    scoped = {"scope": {"name": "openinference.instrumentation.test", "version": "1"}, "spans": spans}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "library"}}]}
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}))
    return path


def test_every_field_says_its_state_its_source_or_what_its_absence_costs(recording, capsys):
    assert main(["inspect", str(recording), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    fields = {field["name"]: field for field in entry["fields"]}
    assert (entry["app"], entry["convention"], entry["spans"]) == ("library", "openinference", 3)
    assert fields["query"]["value"] == QUESTION and fields["query"]["source"] == "input.value"
    assert (fields["outcome"]["state"], fields["outcome"]["source"]) == ("inferred", "rule:answer_text")
    assert (fields["context"]["state"], fields["citations"]["value"]) == ("inferred", "d1")
    assert fields["usage"]["state"] == "unknown" and fields["usage"]["without"]
    assert fields["rewritten_query"]["state"] == "unknown"
    assert entry["answer_call"] == "rule:output_is_the_answer"
    assert set(entry["criteria"]) >= {"faithfulness", "any_failure"}
    assert entry["criteria"]["faithfulness"].startswith("pass")


def test_the_text_for_people_names_what_is_unknown(recording, capsys):
    assert main(["inspect", str(recording)]) == 0
    shown = capsys.readouterr().out
    assert f"trace {TRACE_ID} of library: 3 spans, read as openinference" in shown
    assert "usage                unknown    without it: tokens" in shown


def test_a_trace_that_is_no_question_says_so_with_its_spans(tmp_path, capsys):
    scoped = {"scope": {"name": "web"}, "spans": [span(1, 0, "GET /health")]}
    path = tmp_path / "health.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [scoped]}]}))
    assert main(["inspect", str(path)]) == 0
    assert "no question" in (shown := capsys.readouterr().out) and "GET /health" in shown


def test_a_received_trace_is_found_by_its_id(recording, tmp_path, capsys):
    folder = tmp_path / "data"
    assert main(["replay", str(recording), "--data-dir", str(folder)]) == 0
    capsys.readouterr()
    assert main(["inspect", TRACE_ID.upper(), "--data-dir", str(folder), "--json"]) == 0
    (logged,) = json.loads(capsys.readouterr().out)
    for segment in (folder / "spanlog").iterdir():
        segment.unlink()
    assert main(["inspect", TRACE_ID, "--data-dir", str(folder), "--json"]) == 0
    (stored,) = json.loads(capsys.readouterr().out)
    assert logged["fields"] == stored["fields"] and (logged["scopes"], stored["scopes"]) != ([], [])
    assert stored["scopes"] == []  # only the record is left


def test_who_reads_a_received_trace_stands_in_the_trail_before_it_is_printed(
    recording, tmp_path, capsys, monkeypatch
):
    here = ["--data-dir", str(tmp_path / "data")]
    assert main(["replay", str(recording), *here]) == 0
    assert main(["inspect", TRACE_ID, *here]) == 0
    assert main(["inspect", "0" * 32, *here]) == 1  # nothing was read
    assert main(["inspect", str(recording), *here]) == 0  # a file of one's own
    capsys.readouterr()
    assert main(["audit", "list", "--about", TRACE_ID, "--json", *here]) == 0
    assert [(e["action"], e["actor"], e["detail"]) for e in json.loads(capsys.readouterr().out)] == [
        ("raw_view", "command", "inspect")
    ]
    monkeypatch.setattr(AuditLog, "append", lambda *_args, **_more: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["inspect", TRACE_ID, *here])
    assert QUESTION not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [("neither", 2, "neither a file nor a trace id"), ("0" * 31 + "1", 1, "no trace found")],
)
def test_what_cannot_be_inspected_is_said(tmp_path, capsys, what, code, message):
    assert main(["inspect", what, "--data-dir", str(tmp_path)]) == code
    assert message in capsys.readouterr().err
