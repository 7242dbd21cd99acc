"""`groundwatch gate` on the demo application: real regressions are blocked, luck is not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from groundwatch_deploy.cli import main
from groundwatch_deploy.demo import regression
from groundwatch_review.gate import report as gate_report
from groundwatch_review.gate import targets

WORKFLOW = Path(__file__).parents[2] / "docs" / "examples" / "groundwatch-gate.yml"
DEMO = "groundwatch_deploy.demo.regression:ask"


@pytest.fixture(scope="module")
def the_set(tmp_path_factory):
    path = tmp_path_factory.mktemp("gate") / "set.jsonl"
    assert regression.main([str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def baseline(the_set):
    path = the_set.with_name("baseline.json")
    assert main(["gate", "--set", str(the_set), "--python", DEMO, "--save-baseline", str(path)]) == 0
    return path


def gate(the_set, *arguments, capsys):
    code = main(["gate", "--json", "--set", str(the_set), *map(str, arguments)])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("incident", "score"),
    [
        ("rerank-cut", "context_recall"),
        ("invented-numbers", "faithfulness"),
        ("over-refusal", "refusal_correctness"),
    ],
)
def test_a_bad_deploy_is_blocked_at_its_layer(the_set, baseline, incident, score, monkeypatch, capsys):
    monkeypatch.setenv("GROUNDWATCH_DEMO_INCIDENT", incident)
    monkeypatch.setenv("GROUNDWATCH_DEMO_SEED", "5")
    code, found = gate(the_set, "--python", DEMO, "--baseline", baseline, capsys=capsys)
    assert (code, found["decision"]) == (1, "blocked")
    assert score in {change["name"] for change in found["changes"] if change["blocks"]}


@pytest.mark.parametrize("seed", ["1", "2", "3", "4"])
def test_the_same_version_with_other_luck_passes(the_set, baseline, seed, monkeypatch, capsys):
    monkeypatch.setenv("GROUNDWATCH_DEMO_SEED", seed)
    code, found = gate(the_set, "--python", DEMO, "--baseline", baseline, capsys=capsys)
    assert (code, found["decision"]) == (0, "passed")
    assert any(change["worse"] for change in found["changes"])  # luck did move items


def test_added_noise_reaches_the_context_of_an_application_that_takes_it(the_set, capsys):
    _code, found = gate(the_set, "--python", DEMO, "--noise", "0,3", capsys=capsys)
    assert [(p["added"], p["taken"] == p["answered"] > 0) for p in found["noise"]] == [(0, True), (3, True)]


def test_evidence_that_left_the_corpus_is_listed(the_set, tmp_path, capsys):
    corpus = tmp_path / "corpus.jsonl"
    texts = [passage.text for passage in regression._index_passages()]
    gone = json.loads(the_set.read_text().splitlines()[0])
    exact = gone["evidence"]["expected_anchors"][0]["exact"]
    corpus.write_text("".join(json.dumps({"text": t.replace(exact, "")}) + "\n" for t in texts))
    _code, found = gate(the_set, "--python", DEMO, "--corpus", corpus, capsys=capsys)
    assert gone["candidate_id"] in {anchor["item_id"] for anchor in found["broken_anchors"]}
    assert len(found["broken_anchors"]) < found["makeup"]["with_evidence"]


def test_an_application_that_is_away_is_not_measured(the_set, capsys):
    code, found = gate(the_set, "--url", "http://127.0.0.1:9/", "--retries", "0", capsys=capsys)
    assert (code, found["decision"]) == (3, "not_measured")
    assert found["executions"]["failed"] == {"unreachable": found["executions"]["asked"]}
    assert found["executions"]["said"] == ["no connection (ConnectionRefusedError)"]
    assert {score["applicable"] for score in found["scores"].values()} == {0}


def test_the_report_says_why_nothing_was_answered(the_set, tmp_path, capsys):
    one = tmp_path / "one.jsonl"
    one.write_text(the_set.read_text().splitlines(keepends=True)[0])
    assert main(["gate", "--set", str(one), "--command", f"{sys.executable} not_there.py", "--retries", "0"]) == 3
    said = capsys.readouterr().out
    assert "0 of 1 questions got a reply; 0 were asked again; 1 crashed." in said
    assert "Said of them: the command ended with 2." in said


def test_an_application_that_no_longer_tells_its_context_does_not_pass(
    the_set, baseline, tmp_path, monkeypatch, capsys
):
    (tmp_path / "silent_app.py").write_text(
        "from groundwatch_deploy.demo import regression\n"
        "def ask(request):\n    return {'answer': regression.ask(request)['answer']}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    code, found = gate(the_set, "--python", "silent_app:ask", "--baseline", baseline, capsys=capsys)
    assert (code, found["decision"]) == (3, "not_measured")
    assert "context_recall" in found["reason"]


def test_the_set_is_described(the_set, capsys):
    _code, found = gate(the_set, "--python", DEMO, capsys=capsys)
    makeup = found["makeup"]
    assert set(makeup["languages"]) == {"en", "zh"}
    assert makeup["origin"] == {"synthetic": makeup["items"]}
    assert set(makeup["answerability"]) == {"FULL", "PARTIAL", "NONE"}


def test_a_page_shows_what_the_text_stresses_and_escapes_the_rest():
    shown = gate_report.page("# Passed\n\n**The set is not the baseline's:** 1 changed (<b>x</b>, **y**).\n")
    assert (
        "<p><strong>The set is not the baseline&#x27;s:</strong> 1 changed (&lt;b&gt;x&lt;/b&gt;, **y**).</p>"
        in shown
    )


def test_reports_are_written_and_quote_no_question(the_set, baseline, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GROUNDWATCH_DEMO_SEED", "2")
    pages = [tmp_path / "gate.md", tmp_path / "gate.html"]
    gate(the_set, "--python", DEMO, "--baseline", baseline, "--report", pages[0], "--report", pages[1], capsys=capsys)
    question = json.loads(the_set.read_text().splitlines()[0])["question"]["text"]
    for page in pages:
        text = page.read_text()
        assert "Items that changed" in text
        assert question not in text
    assert pages[1].read_text().startswith("<!doctype html>")


def test_an_item_that_was_edited_is_no_pair_and_is_named(the_set, tmp_path, monkeypatch, capsys):
    """A key point more is a stricter ruler, not a worse application."""
    documents = [json.loads(line) for line in the_set.read_text().splitlines()[:14]]
    paths = [tmp_path / name for name in ("old.jsonl", "new.jsonl")]
    paths[0].write_text("".join(json.dumps(document) + "\n" for document in documents[:-1]))
    monkeypatch.setenv("GROUNDWATCH_DEMO_SEED", "1")
    saved = tmp_path / "baseline.json"
    assert main(["gate", "--set", str(paths[0]), "--python", DEMO, "--save-baseline", str(saved)]) == 0
    documents[3]["expectation"]["key_points"] = [{"id": "k9", "text": "Nobody ever says this.", "required": True}]
    documents[4]["family"]["support"] = 7  # says nothing about what is right
    paths[1].write_text("".join(json.dumps(document) + "\n" for document in documents[1:]))
    monkeypatch.setenv("GROUNDWATCH_DEMO_INCIDENT", "invented-numbers")
    capsys.readouterr()
    code = main(["gate", "--set", str(paths[1]), "--python", DEMO, "--baseline", str(saved), "--worst", "2"])
    said, trouble = capsys.readouterr()
    assert code in (0, 1), trouble
    names = [document["candidate_id"] for document in documents]
    assert f"1 changed ({names[3]}), 1 added ({names[13]}), 1 gone ({names[0]})" in said
    assert "Compared are the 11 that are the same." in said
    assert said.count("| rc_") == 2
    assert "more items are in `--json`" in said


@pytest.mark.parametrize(
    ("line", "named"),
    [("{", "set.jsonl:1: not JSON"), ("{}", "departs from the candidate format"), ("", "no item")],
)
def test_a_set_that_cannot_be_read_is_misuse(tmp_path, line, named, capsys):
    (tmp_path / "set.jsonl").write_text(line)
    assert main(["gate", "--set", str(tmp_path / "set.jsonl"), "--python", DEMO]) == 2
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    "target", [("--python", "no_such_module:f"), ("--url", "ftp://x"), ("--command", "'")], ids=lambda t: t[0]
)
def test_a_target_that_cannot_be_used_is_misuse(the_set, target):
    assert main(["gate", "--set", str(the_set), *target]) == 2


class _Application(BaseHTTPRequestHandler):
    """Answers the first question with 500, the second with text that is no JSON, and all others."""

    asked = 0

    def do_POST(self):
        type(self).asked += 1
        size = int(self.headers["Content-Length"])
        question = json.loads(self.rfile.read(size))["question"]
        body = b"not json" if self.asked == 2 else json.dumps({"answer": question}).encode()
        self.send_response(500 if self.asked == 1 else 200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_an_http_application_is_asked_again_and_each_try_is_kept():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Application) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        target = targets.HttpTarget(f"http://127.0.0.1:{server.server_port}/")
        for reason in ("http_error", "bad_reply"):
            with pytest.raises(targets.NotAsked) as failed:
                target.ask({"question": "q"}, 5)
            assert failed.value.reason == reason
        assert target.ask({"question": "问"}, 5) == {"answer": "问"}
        server.shutdown()


class _Broken(BaseHTTPRequestHandler):
    """Sends what its path names, and hangs up."""

    SENT = {  # noqa: RUF012
        "/no-http": b"garbage\r\n\r\n",
        "/cut-off": b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFF\r\n{"ans',
        "/nested": b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000,
    }

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.wfile.write(self.SENT[self.path])
        self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("path", sorted(_Broken.SENT))
def test_what_is_no_reply_is_a_failed_try_and_not_the_end_of_the_gate(path):
    with ThreadingHTTPServer(("127.0.0.1", 0), _Broken) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(targets.NotAsked) as failed:
            targets.HttpTarget(f"http://127.0.0.1:{server.server_port}{path}").ask({"question": "q"}, 5)
        server.shutdown()
    assert failed.value.reason == "bad_reply"


def test_a_command_is_given_the_question_on_its_standard_input():
    echo = targets.CommandTarget(
        f"{sys.executable} -c \"import json,sys; print(json.dumps({{'answer': json.load(sys.stdin)['question']}}))\""
    )
    assert echo.ask({"question": "问"}, 20) == {"answer": "问"}
    with pytest.raises(targets.NotAsked, match="ended with 3"):
        targets.CommandTarget(f'{sys.executable} -c "raise SystemExit(3)"').ask({"question": "q"}, 20)
    with pytest.raises(targets.NotAsked, match="stopped after"):
        targets.CommandTarget(f'{sys.executable} -c "import time; time.sleep(60)"').ask({"question": "q"}, 0.2)


@pytest.mark.service("actionlint")
def test_the_ready_workflow_is_accepted_by_actionlint():
    program = shutil.which("actionlint") or str(Path.home() / ".cache/groundwatch-actionlint/actionlint")
    done = subprocess.run([program, "-no-color", str(WORKFLOW)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
