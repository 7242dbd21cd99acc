"""The demo's monitor: production settings, except where a minute has to stand for days."""

from __future__ import annotations

import argparse

import pytest

from groundwatch_collector.feedback_bursts import Bursts, Complaint
from groundwatch_deploy import demo_command
from groundwatch_deploy.demo.story import Plan
from groundwatch_deploy.demo.traffic import SERVICE


def test_the_complaints_of_a_bad_deploy_are_not_taken_for_a_burst(tmp_path):
    """Were they, the demo would look at a hundred and twenty of them and leave the others where nobody complained."""
    settings = demo_command._settings(argparse.Namespace(headless=True, console_port=0), tmp_path)
    gate = Bursts(settings.feedback)
    plan = Plan()
    every_answer = plan.healthy_requests + plan.bad_requests
    said = [gate.admit(Complaint("", SERVICE, at=number / plan.per_second)) for number in range(every_answer)]
    assert set(said) == {""}


@pytest.mark.parametrize(("llm", "says"), [(False, "--llm"), (True, "")])
def test_a_model_in_the_environment_is_pointed_at_and_not_called_unasked(monkeypatch, capsys, llm, says):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-shown")
    demo_command._point_at_model(Plan(llm=llm))
    said = capsys.readouterr().err
    assert says in said
    assert bool(said) is bool(says)
    assert "sk-" not in said


def test_without_a_model_nothing_is_said_of_one(monkeypatch, capsys):
    for name in demo_command.LLM_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    demo_command._point_at_model(Plan())
    assert capsys.readouterr().err == ""
