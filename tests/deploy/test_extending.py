"""A judge, a stratum and an exporter of one's own: the files that docs/extending.md shows, used as it says."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import exportable
import httpx
import pytest
import torture
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy import select

from groundwatch_collector.storage import open_engine, reader
from groundwatch_collector.tables import ledger
from groundwatch_deploy.cli import main
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.migrations import upgrade
from groundwatch_deploy.own_judges import own_judges
from groundwatch_deploy.serve import Monitor, judging_everything
from groundwatch_deploy.settings import load
from groundwatch_scorer.tables import judgements

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
(JUDGE, EXPORTER), (JUDGE_TOML, STRATUM_TOML) = (
    re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) for language in ("python", "toml")
)


@pytest.fixture
def importable(tmp_path, monkeypatch):
    """Files of the page, in the folder where the commands are started."""
    for name, text in (("short_answers", JUDGE), ("question_answer", EXPORTER)):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_judge_and_stratum_of_the_page_work_in_the_monitor(importable):
    path = importable / "groundwatch.toml"
    path.write_text(JUDGE_TOML + STRATUM_TOML)
    settings = load(path, data_directory=importable / "data", ingest_port=0, console_port=0, metrics_port=0)
    with Monitor(judging_everything(settings)) as monitor:
        addresses = monitor.start()
        for number, (session, words) in enumerate([("vip-7", 1), ("walk-in", 40)], 1):
            answer = "Files are kept for 30 days [1]. " * words
            assert torture.post(addresses.ingest, _body(number, session, answer))
        labels = _until(lambda: _labels(monitor), 2)
        with reader(monitor.engine).connect() as connection:
            strata = dict(connection.execute(select(ledger.c.trace_id, ledger.c.stratum)).all())
        metrics = httpx.get(f"{addresses.metrics}/metrics").text
    assert [strata[f"{number:016x}{number + 99:016x}"] == "vip" for number in (1, 2)] == [True, False]
    assert labels == ["pass", "fail"]
    assert re.search(r'rag_judged_total\{[^}]*criterion="answer_relevance"[^}]*judge="short-answers-v1"', metrics)


def _body(number: int, session: str, answer: str) -> bytes:
    body = torture.body([f"{number:016x}{number + 99:016x}"])
    request = ExportTraceServiceRequest.FromString(body)
    request.resource_spans[0].resource.attributes[0].value.string_value = "helpdesk"
    root = request.resource_spans[0].scope_spans[0].spans[0]
    for attribute in root.attributes:
        if attribute.key == "output.value":
            attribute.value.string_value = answer
    root.attributes.add(key="session.id").value.string_value = session
    return request.SerializeToString()


def _labels(monitor: Monitor) -> list[str]:
    mine = judgements.c.identifier == "short-answers-v1", judgements.c.criterion == "answer_relevance"
    with reader(monitor.engine).connect() as connection:
        return list(connection.scalars(select(judgements.c.label).where(*mine).order_by(judgements.c.trace_id)))


def _until(found, count: int) -> list[str]:
    deadline = time.monotonic() + 30
    while len(rows := found()) < count:
        assert time.monotonic() < deadline, rows
        time.sleep(0.1)
    return rows


def test_exporter_of_the_page_writes_rows_of_its_own(importable, capsys):
    data = importable / "data"
    data.mkdir()
    engine = open_engine(f"sqlite:///{data / 'groundwatch.db'}")
    upgrade(engine)
    exportable.add(engine, exportable.make_trace(1, exportable.questions("DEV", 1)[0]), at=time.time())
    engine.dispose()
    target = importable / "set.jsonl"
    assert main(["export", str(target), "--data-dir", str(data), "--format", "question_answer:row"]) == 0
    (row,) = [json.loads(line) for line in target.read_text().splitlines()]
    assert set(row) == {"id", "question", "passages", "layer"} and row["layer"] == "GENERATION"
    capsys.readouterr()
    assert main(["export", str(target), "--data-dir", str(data), "--format", "question_answer:rows"]) == 2
    assert "or module:function of your own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be loaded (AttributeError"),
        ("import nothing_of_this_name", "cannot be loaded (ModuleNotFoundError"),
        ("def judge(): return 7", "returns int; accepted: something with `identifier`"),
        (JUDGE.replace('"short-answers-v1"', '"local-v1"'), "calls itself 'local-v1'"),
    ],
)
def test_what_is_no_judge_is_refused_by_name(importable, text, said):
    (importable / "short_answers.py").write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)):
        own_judges(["short_answers:judge"], ["local-v1"])
