"""The demo's monitor: production settings, except where a minute has to stand for days."""

from __future__ import annotations

import argparse

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
