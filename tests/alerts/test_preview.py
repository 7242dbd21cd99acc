"""What alerts would have done on the past, from the tallies and judgements of a real database."""

from __future__ import annotations

import json
import re
import shutil
import time

import closed_loop
import judged_stream as js
import numpy as np
import pytest
from sqlalchemy import Engine, insert, select, update

from groundwatch_alerts.objectives import AlertsConfig, Objective
from groundwatch_alerts.preview import Fired, preview
from groundwatch_collector.storage import add_to_tally, metadata, open_engine
from groundwatch_collector.tables import ledger, sampled_traces, traffic_tally
from groundwatch_deploy.cli import main
from groundwatch_deploy.rules_command import _headline, _table
from groundwatch_scorer.tables import judgements, verdict_tally

START = 1_780_012_800
OBJECTIVES = [Objective("q", "any_failure", 0.08, app="shop"), Objective("e", "execution", 0.01)]
PLACE = {"app": "shop", "version": "v1"}


def fill(engine: Engine, start: int, stream: js.Stream, rng: np.random.Generator, failing: range = range(0)) -> None:
    """Write *stream* as the pipeline and the scorer would; in the steps of *failing* a third ends in an error."""
    traffic, verdicts, rows = [], [], []
    for step in range(len(stream.traffic)):
        at = start + step * js.STEP_SECONDS
        key = {"bucket_start": at, **PLACE}
        for index, name in enumerate(closed_loop.STRATA):
            n = int(stream.traffic[step, index])
            traffic.append({**key, "stratum": name, "outcome": "answered", "traces": n, "received": n})
            judged, failed, p = stream.judged[step, index], stream.failed[step, index], stream.chance[index]
            if judged:
                sums = {"weight": judged / p, "fail_weight": failed / p, "weight_sq": judged / p**2}
                sums |= {"judged": int(judged), "failed": int(failed)}
                zero = {"not_applicable_weight": 0.0, "missing_weight": 0.0}
                verdicts.append({**key, "stratum": name, "criterion": "any_failure", "judge": "l", **sums, **zero})
        errors = int(stream.traffic[step].sum()) // 2 if step in failing else 0
        traffic.append({**key, "stratum": "error_timeout", "outcome": "error", "traces": errors, "received": errors})
        rows += [(at, stratum, failed) for stratum, failed in stream.verdicts(step, rng)]
    with engine.begin() as connection:
        add_to_tally(connection, traffic_tally, traffic)
        add_to_tally(connection, verdict_tally, verdicts)
        for table, values in (("s", sampled), ("l", decided), ("j", judged_row)):
            target = {"s": sampled_traces, "l": ledger, "j": judgements}[table]
            connection.execute(insert(target), [values(number, *row) for number, row in enumerate(rows)])


def sampled(number: int, at: float, stratum: str, _failed: bool) -> dict[str, object]:
    trace = {"trace_id": f"{number:032x}", **PLACE, "started_at": at, "stratum": stratum, "epoch": "e"}
    return {**trace, "inclusion_probability": 0.01, "reason": "hash", "family": "fast", "payload": "",
            "queued_at": at, "state": "judged"}  # fmt: skip


def decided(number: int, at: float, stratum: str, _failed: bool) -> dict[str, object]:
    trace = {"trace_id": f"{number:032x}", **PLACE, "started_at": at, "stratum": stratum, "epoch": "e"}
    return {**trace, "inclusion_probability": 0.01, "reason": "hash", "decided_at": at, "outcome": "answered",
            "u56": 1, "salt_version": 1, "verdict": "sampled", "first_position": 0, "last_position": 0}  # fmt: skip


def judged_row(number: int, at: float, _stratum: str, failed: bool) -> dict[str, object]:
    label = "fail" if failed else "pass"
    return {"trace_id": f"{number:032x}", "criterion": "any_failure", "label": label, "annotator_kind": "CODE",
            "identifier": "l", "judged_at": at}  # fmt: skip


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Fired]]:
    """28 days at 5 %, of which the 22nd and 23rd are at 15 % and of one hour a third ends in an error."""
    folder, rng = tmp_path_factory.mktemp("month"), np.random.default_rng(2)
    engine = open_engine(f"sqlite:///{folder / 'groundwatch.db'}")
    metadata.create_all(engine)
    parts = (js.stream(rng, 21, 0.05), js.stream(rng, 2, 0.15), js.stream(rng, 5, 0.05))
    whole = js.then(js.then(parts[0], parts[1]), parts[2])
    fill(engine, START, whole, rng, failing=range(288, 300))
    found = preview(engine, OBJECTIVES, AlertsConfig(), "l", since=START, until=START + 28 * 86_400)
    engine.dispose()
    return str(folder), found


def test_an_incident_is_found_and_quiet_days_are_quiet(month):
    found = {one.alert: one for one in month[1]}
    incident = START + 21 * 86_400
    above, change = found["RagFailureRateAboveObjective"], found["RagQualityChange"]
    assert above.times in (1, 2) and incident < (above.first_at or 0) < incident + 86_400
    assert 24 < above.hours < 72 and 24 < change.hours < 72
    assert 1 <= change.times <= 4  # one false alarm a week is allowed in the two weeks after the baseline
    burn = found["RagExecutionBudgetBurn"]
    assert burn.times == 1 and START + 86_400 < (burn.first_at or 0) < START + 86_400 + 3_600


def test_a_start_without_traffic_is_not_called_blind_for_long(month):
    (blind,) = [one for one in month[1] if one.alert == "RagEstimateBlind"]
    assert blind.times == 1 and blind.hours < 6  # until the first window is full


def test_the_command_says_where_there_is_no_database_and_prints_json(month, tmp_path, capsys):
    assert main(["rules", "preview", "--data-dir", str(tmp_path)]) == 2
    assert main(["rules", "preview", "--data-dir", month[0], "--days", "1e9"]) == 2
    assert "accepted: more than 0, at most 3660" in capsys.readouterr().err
    assert main(["rules", "preview", "--data-dir", month[0], "--json"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert "no objectives, so only changes are looked at" in err
    # Without objectives nothing else is previewed.
    assert {row["alert"] for row in told["alerts"]} <= {"RagQualityChange"}
    assert told["days_asked"] == 28 and told["until"] - told["since"] == pytest.approx(28 * 86_400)
    days = (time.time() - START) / 86_400 + 100
    assert main(["rules", "preview", "--data-dir", month[0], "--days", f"{days:.0f}"]) == 0
    said = capsys.readouterr().out
    (history,) = re.findall(rf"{days:.0f} days asked, ([0-9.]+) days of history found", said)
    assert float(history) == pytest.approx(days - 100, abs=1.0) and "a week" in said


def test_a_table_is_not_spoilt_by_what_applications_are_called():
    odd = [Fired("x" * 300, "A", "c", 1, 2.0, 0.0, 7.0), Fired("a\x1b[2J", "A", "c", 0, 0.0, None, 7.0)]
    head, long, steering = _table(odd)
    assert len(long) < 140 and "…" in long and "\x1b" not in steering
    assert head.index("alert") == long.index("A ") == steering.index("A ")


@pytest.mark.parametrize(
    ("known", "heard"), [(["llm:m:r", "local-v1"], "local-v1"), (["llm:m:r", "own"], "llm:m:r"), ([], "")]
)
def test_a_preview_hears_the_judge_that_alerts_hear(known, heard):
    assert _headline(known) == heard


def test_verdicts_are_read_by_the_clock_of_their_traces_whenever_they_were_judged(month, tmp_path):
    """The last traces judged first, and all of them days later: the same alerts."""
    shutil.copy(f"{month[0]}/groundwatch.db", tmp_path)
    engine = open_engine(f"sqlite:///{tmp_path}/groundwatch.db")
    started = select(sampled_traces.c.started_at).where(sampled_traces.c.trace_id == judgements.c.trace_id)
    turned = judgements.c.id - 1_000 * (started.scalar_subquery() - START)
    with engine.begin() as connection:
        connection.execute(update(judgements).values(judged_at=START + 40 * 86_400, id=turned))
    found = preview(engine, OBJECTIVES, AlertsConfig(), "l", since=START, until=START + 28 * 86_400)
    engine.dispose()
    assert found == month[1]


def test_what_cannot_be_told_is_said_and_a_week_is_a_week_of_history(month):
    engine = open_engine(f"sqlite:///{month[0]}/groundwatch.db")
    short = preview(engine, OBJECTIVES, AlertsConfig(), "l", since=START - 20 * 86_400, until=START + 8 * 86_400)
    engine.dispose()
    by_name = {one.alert: one for one in short}
    assert {one.days for one in short} == {8.0}
    assert by_name["RagQualityChange"].untold and by_name["RagQualityChange"].a_week is None
    burn = by_name["RagExecutionBudgetBurn"]
    assert burn.times == 1 and burn.a_week == pytest.approx(7 / 8)


def test_an_accepted_change_is_frozen_anew(month, capsys):
    day = (time.time() - START) / 86_400 + 1
    asked = ["rules", "baseline", "--data-dir", month[0], "--app"]
    assert main([*asked, "shop", "--days", f"{day:.0f}"]) == 0
    assert capsys.readouterr().out == "frozen anew for l\n"
    assert main([*asked, "shop", "--days", "0.001"]) == 1
    assert main([*asked, "shop", "--criterion", "truth"]) == 2
    assert "accepted: faithfulness, " in capsys.readouterr().err
    assert main([*asked, "nobody"]) == 2
    assert "accepted: shop" in capsys.readouterr().err
