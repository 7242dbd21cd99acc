"""Objectives are checked whole, and what is rendered from them passes Prometheus' own check."""

from __future__ import annotations

import itertools
import subprocess

import pytest

from groundwatch_alerts.alert_names import ALERTS
from groundwatch_alerts.objectives import CRITERIA, WINDOWS, AlertsConfig, Objective, alarm_z, check, covering
from groundwatch_alerts.rule_files import Alert, Group, Recording, problems, to_yaml
from groundwatch_alerts.rule_set import alert_groups, recording_groups
from groundwatch_deploy.cli import main
from groundwatch_deploy.config import ConfigError
from groundwatch_deploy.settings import load

TARGETS = {"latency": 4.0, "first_token": 1.0, "cost": 0.02, "execution": 0.01, "timeout": 0.005}
EVERYTHING = [Objective(name, name, TARGETS.get(name, 0.05)) for name in CRITERIA]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"criterion": "truth"}, "criterion: 'truth'; accepted: faithfulness"),
        ({"window": "2h"}, "window: '2h'; accepted: 1h, 6h, 12h, 24h"),
        ({"objective": 5.0}, "a share of failed answers above 0 and below 1"),
        ({"criterion": "execution", "objective": 0.2}, "a share of failed requests above 0 and below 0.0625"),
        ({"criterion": "latency", "objective": 300.0}, "seconds above 0 and below 120"),
        ({"quantile": 1.0}, "quantile: 1.0; accepted: above 0 and below 1"),
        ({"quantile": 0.99}, "quantile: 0.99 says nothing of any_failure; accepted for latency and first_token"),
        ({"criterion": "execution", "objective": 0.01, "window": "6h"}, "window: '6h' says nothing of execution"),
        ({"criterion": "cost", "judge": "l"}, "judge: 'l' says nothing of cost; accepted for judged criteria"),
        ({"criterion": "cost", "false_alarms_per_week": 0.5}, "false_alarms_per_week: 0.5 says nothing of cost"),
        ({"false_alarms_per_week": 0.0}, "false_alarms_per_week: 0.0; accepted: 0.01 to 20"),
        ({"app": 'a"} or vector(1)'}, "app: 'a\"} or vector(1)'; accepted: a name without quotes"),
        ({"app": "a\nb"}, "line breaks"),
        ({"judge": "a\u200bb"}, "judge: 'a\\u200bb'; accepted: a name without"),
        ({"name": "{{ $labels.app }}"}, "the objective's name: '{{ $labels.app }}'; accepted: a name without"),
    ],
)
def test_an_objective_that_cannot_be_kept_is_refused(changes, message):
    with pytest.raises(ValueError, match=r"accepted|names") as refused:
        Objective(**{"name": "n", "criterion": "any_failure", "objective": 0.05} | changes)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[objectives.a]\ncriterion='any_failure'", "[objectives.a]: objective is missing"),
        ("[objectives.a]\ncriterion='any_failure'\nobjektive=0.1\nobjective=0.1", "did you mean 'objective'?"),
        ("[objectives]\na=1", "must be a table of its own, written as [objectives.a]"),
        ("[objectives.a]\ncriterion='cost'\nobjective='1'", "expected float, found str"),
        (
            "[objectives.a]\ncriterion='cost'\nobjective=1\n[objectives.b]\ncriterion='cost'\nobjective=2",
            "b and a are both about cost of every app",
        ),
    ],
)
def test_an_error_in_the_file_names_the_objective(tmp_path, text, message):
    path = tmp_path / "groundwatch.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(path)
    assert message in str(refused.value)


def test_an_app_with_an_objective_of_its_own_is_left_out_of_the_general_one():
    every, own = Objective("every", "any_failure", 0.05), Objective("own", "any_failure", 0.1, app="a.b")
    other = Objective("other", "execution", 0.01)
    check([every, own, other])
    assert covering([every, own, other], "a.b") == [own, other]
    assert covering([every, own, other], "c") == [every, other]
    rules = [rule for group in alert_groups([every, own], AlertsConfig()) for rule in group.rules]
    assert any('app!~"a\\\\.b"' in rule.expr for rule in rules)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"console_url": "groundwatch.example"}, "an address that begins with http:// or https://"),
        ({"console_url": "https://groundwatch.example/?tenant=a"}, "without spaces, quotes, braces, ? and #"),
        ({"runbook_url": "https://wiki.example/{{ .Title }}"}, "without spaces, quotes, braces"),
        ({"learning_days": float("inf")}, "accepted: 1 to 366"),
        ({"learning_days": float("nan")}, "accepted: 1 to 366"),
        ({"min_judged": 3}, "accepted: 10 or more"),
    ],
)
def test_what_would_spoil_every_alert_is_refused(changes, message):
    with pytest.raises(ValueError, match="accepted") as refused:
        AlertsConfig(**changes)
    assert message in str(refused.value)


ODD_NAMES = ["客服🤖", "हिन्दी", "日本語・アプリ", "a.b|(c)*", "$labels", "shop {{x}}", "%s", "x" * 300]


@pytest.mark.service("prometheus")
def test_rules_of_applications_with_odd_names_are_accepted_by_prometheus(tmp_path):
    every = [Objective("every", "any_failure", 0.05), Objective("all-up", "execution", 0.01)]
    own = [Objective(f"own {n}", "any_failure", 0.1, app=app) for n, app in enumerate(ODD_NAMES)]
    up = [Objective(f"up {n}", "execution", 0.02, app=app) for n, app in enumerate(ODD_NAMES)]
    path = tmp_path / "rules.yaml"
    path.write_text(to_yaml(alert_groups([*every, *own, *up], AlertsConfig())))
    done = subprocess.run(["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_objective_of_every_judge_and_one_of_a_judge_may_not_write_the_same_score():
    every, one = Objective("all", "faithfulness", 0.05), Objective("llm", "faithfulness", 0.1, judge="llm-x")
    with pytest.raises(ValueError, match="llm names the judge llm-x and all names none, both about faithfulness"):
        check([every, one])
    check([every, Objective("llm", "faithfulness", 0.1, judge="llm-x", window="24h")])
    check([Objective("local", "faithfulness", 0.05, judge="local-v1"), one])


def test_rarer_false_alarms_and_shorter_windows_need_a_higher_score():
    scores = [alarm_z(hours, 1.0, 400 * hours / 24) for hours in WINDOWS.values()]
    assert scores == sorted(scores, reverse=True)
    assert alarm_z(6, 0.25, 100) > alarm_z(6, 1.0, 100) > alarm_z(6, 4.0, 100) > alarm_z(6, 20.0, 100) == 1.0
    assert alarm_z(6, 1.0, 500) > alarm_z(6, 1.0, 100)  # the path of a mean over more verdicts is rougher


def test_what_is_rendered_is_sound_and_every_listed_alert_is_in_it():
    alerts = alert_groups(EVERYTHING, AlertsConfig())
    assert problems([*recording_groups(EVERYTHING), *alerts]) == []
    found = {rule.alert: rule for group in alerts for rule in group.rules if isinstance(rule, Alert)}
    assert sorted(found) == sorted(alert.name for alert in ALERTS)
    for alert in ALERTS:
        assert found[alert.name].annotations["runbook_url"] == f"docs/runbooks/{alert.name}.md"


def test_the_own_check_finds_what_prometheus_would():
    bad = Group("g", [Recording("a b", "mad_over_time(x[5m]"), Alert("A", "rag:nothing:6h > 1", "page", "s", " ")])
    assert problems([bad, bad])[0] == "group g is there twice"
    found = "\n".join(problems([bad]))
    for part in ("no name", "2.42 or 3", "brackets", "rag:nothing:6h, which no rule records", "description is empty"):
        assert part in found


@pytest.mark.service("prometheus")
def test_the_command_renders_files_that_promtool_accepts(tmp_path, capsys):
    config, out = tmp_path / "groundwatch.toml", tmp_path / "rules"
    tables = itertools.chain.from_iterable(
        (f"[objectives.{name}]", f"criterion = '{name}'", f"objective = {TARGETS.get(name, 0.05)}")
        for name in CRITERIA
    )
    config.write_text("\n".join(tables))
    assert main(["rules", "check", "--config", str(config)]) == 0
    assert capsys.readouterr().out == "the rules are good\n"
    assert main(["rules", "render", "--config", str(config), "--out", str(out)]) == 0
    assert "groundwatch-alerts.yaml" in {path.name for path in out.iterdir()}
    assert main(["rules", "render", "--config", str(tmp_path / "none.toml")]) == 2


def test_a_judge_that_judges_nothing_is_refused(tmp_path, capsys, monkeypatch):
    """No verdict would ever carry its name: the alert could not fire, nor say that it is blind."""
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "groundwatch.toml"
    text = "[judge]\nllm_model = 'm'\n[objectives.good]\ncriterion = 'any_failure'\nobjective = 0.05\njudge = '%s'\n"
    config.write_text(text % "locla-v1")
    assert main(["rules", "check", "--config", str(config)]) == 1
    said = capsys.readouterr().out
    assert "[objectives.good] judge: 'locla-v1' judges nothing here; accepted: local-v1, llm:m:" in said
    config.write_text(text % "local-v1")
    assert main(["rules", "check", "--config", str(config)]) == 0
