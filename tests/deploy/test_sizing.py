"""`groundwatch size`: a plan that grows with the load and says what it rests on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from groundwatch_deploy.cli import main
from groundwatch_deploy.sizing import BUSY, MEASURED, Load, plan, text


def test_a_team_needs_one_process():
    found = plan(Load(20))
    assert (found.kind, found.cores, found.partitions) == ("one process", 1, 0)


def test_what_one_process_cannot_take_is_a_cluster_with_two_of_each():
    found = plan(Load(1_000))
    assert found.kind == "cluster"
    assert min(found.collectors, found.scorers) >= 2
    assert found.partitions >= found.collectors


def test_cores_are_at_most_half_busy():
    load = Load(5_000, judged_per_day=100_000)
    found = plan(load)
    busy = load.traces_per_second * (MEASURED["kafka_receive_cpu"].value + MEASURED["kafka_decide_cpu"].value)
    assert busy / found.collectors <= BUSY
    assert found.collectors == pytest.approx(busy / BUSY, abs=1)


def test_larger_traces_cost_more_and_longer_retention_keeps_more():
    assert plan(Load(2_000, trace_bytes=54_000)).collectors > plan(Load(2_000)).collectors
    assert plan(Load(10, log_days=14)).log_bytes == 2 * plan(Load(10, log_days=7)).log_bytes


def test_money_is_what_is_judged_times_its_price():
    assert plan(Load(10, judged_per_day=300, usd_per_judged_trace=0.002)).usd_per_day == pytest.approx(0.6)


def test_no_more_is_judged_than_comes_in():
    found = plan(Load(1, judged_per_day=1e8, usd_per_judged_trace=0.001))
    assert found.usd_per_day == pytest.approx(86.4)
    assert any("planned is every trace" in note for note in found.notes)


def test_a_load_beyond_one_database_is_told_so():
    assert any("several deployments" in note for note in plan(Load(100_000)).notes)
    assert not any("several deployments" in note for note in plan(Load(1_000)).notes)


def test_the_command_prints_the_plan_and_the_figures_it_rests_on(capsys):
    assert main(["size", "--traces-per-second", "1000", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["plan"]["kind"] == "cluster"
    assert set(said["measured"]) == set(MEASURED)
    assert main(["size", "--traces-per-second", "1000"]) == 0
    assert "partitions" in capsys.readouterr().out


def test_a_load_of_nothing_is_misuse(capsys):
    assert main(["size", "--traces-per-second", "0"]) == 2
    assert "traces_per_second is 0" in capsys.readouterr().err


def test_the_table_of_the_deploying_page_is_what_the_command_says():
    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d,]+) \| ([\d,]+) collectors.*?\| ([\d,]+) \| ([^|]+) \| ([^|]+) \|$", page, re.M)
    assert len(rows) == 3
    for rate, collectors, cores, log, ledger in rows:
        found = plan(Load(float(rate.replace(",", ""))))
        assert (f"{found.collectors:,}", f"{found.cores:,}") == (collectors, cores)
        said = text(found)
        assert f"{'span log':<10}{log}\n" in said and f"{'ledger':<10}{ledger}\n" in said
