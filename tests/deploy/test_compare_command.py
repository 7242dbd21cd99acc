"""`groundwatch compare` reads a database that a monitor wrote."""

from __future__ import annotations

import json

import pytest

from groundwatch_collector.storage import add_to_tally, open_engine
from groundwatch_collector.tables import traffic_tally
from groundwatch_deploy import migrations
from groundwatch_deploy.cli import main
from groundwatch_scorer.tables import verdict_tally


@pytest.fixture
def data(tmp_path):
    engine = open_engine(f"sqlite:///{tmp_path / 'groundwatch.db'}")
    migrations.upgrade(engine)
    for bucket, (version, judged, failed) in enumerate((("v1", 400, 20), ("v2", 400, 120), ("v3", 20, 1))):
        place = {"app": "shop", "version": version, "stratum": "normal_b0", "bucket_start": 60 * bucket}
        sums = {"weight": 10.0 * judged, "fail_weight": 10.0 * failed, "weight_sq": 100.0 * judged}
        counts = {"judged": judged, "failed": failed, "not_applicable_weight": 0.0, "missing_weight": 0.0}
        with engine.begin() as connection:
            traffic = {**place, "outcome": "answered", "traces": 10.0 * judged, "received": 10 * judged}
            add_to_tally(connection, traffic_tally, [traffic])
            verdict = {**place, "criterion": "any_failure", "judge": "l", **sums, **counts}
            add_to_tally(connection, verdict_tally, [verdict])
    engine.dispose()
    return tmp_path


def test_two_versions_are_compared_for_people_and_machines(data, capsys):
    assert main(["compare", "v1", "v2", "--data-dir", str(data)]) == 0
    text = capsys.readouterr().out
    assert "shop: v2 against v1" in text
    assert "+25.0%" in text
    assert "v2 fails more often" in text
    assert main(["compare", "v1", "v2", "--json", "--data-dir", str(data)]) == 0
    (row,) = json.loads(capsys.readouterr().out)["criteria"]
    assert row["comparison"]["clear"] is True
    assert row["judged"] == [400, 400]


def test_the_newest_two_are_compared_without_names_and_few_verdicts_are_said_to_be_few(data, capsys):
    assert main(["compare", "--data-dir", str(data)]) == 0
    text = capsys.readouterr().out
    assert "v3 against v2" in text
    assert "too few verdicts: 400 and 20, 50 of each are needed" in text


def test_an_unknown_version_is_refused_with_those_there_are(data, capsys):
    assert main(["compare", "v1", "v9", "--data-dir", str(data)]) == 2
    assert "no version 'v9'; it has: v1, v2, v3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "accepted"),
    [
        ("--criterion", "truth", "any_failure"),
        ("--judge", "nobody", "accepted: "),
        ("--app", "shpo", "--app shpo; accepted: shop"),
    ],
)
def test_a_criterion_judge_or_app_that_is_not_there_is_misuse(data, capsys, option, value, accepted):
    assert main(["compare", "v1", "v2", option, value, "--data-dir", str(data)]) == 2
    assert accepted in capsys.readouterr().err
