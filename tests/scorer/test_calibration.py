"""The calibration report: its measures against an oracle, its bad input, and the level that the judge reaches."""

from __future__ import annotations

import gzip
import json
import random
from importlib import resources
from typing import Any

import pytest

from groundwatch_collector.ragtrace import RagTrace
from groundwatch_scorer import calibration, local_judge
from groundwatch_scorer.calibration_metrics import auroc, binary, fit_logistic, interval, reliability
from groundwatch_scorer.calibration_probes import stability
from groundwatch_scorer.judgement import AnnotatorKind, Assessment, ClaimVerdict, Verdict
from groundwatch_scorer.local_judge import LocalJudge


def _noise(n: int = 400) -> tuple[list[bool], list[float]]:
    rng = random.Random(5)
    truths = [rng.random() < 0.4 for _ in range(n)]
    return truths, [round(min(1.0, max(0.0, 0.3 * t + rng.random() * 0.7)), 2) for t in truths]


def test_measures_agree_with_scipy():
    stats = pytest.importorskip("scipy.stats")
    truths, scores = _noise()
    bad = [s for t, s in zip(truths, scores, strict=True) if t]
    good = [s for t, s in zip(truths, scores, strict=True) if not t]
    expected = stats.mannwhitneyu(bad, good).statistic / (len(bad) * len(good))
    assert auroc(list(zip(truths, scores, strict=True))) == pytest.approx(expected)


def test_binary_figures_of_a_known_table():
    pairs = [(True, True)] * 30 + [(True, False)] * 10 + [(False, True)] * 20 + [(False, False)] * 40
    found = binary(pairs)
    assert found["sensitivity"] == 0.75
    assert found["specificity"] == pytest.approx(2 / 3)
    assert found["balanced_accuracy"] == pytest.approx((0.75 + 2 / 3) / 2)
    assert found["f1"] == pytest.approx(60 / 90)
    assert found["kappa"] == pytest.approx((0.7 - 0.5) / 0.5)
    assert found["base_rate"] == 0.4


def test_one_class_has_no_balanced_accuracy():
    assert binary([(True, True)])["balanced_accuracy"] is None
    assert auroc([(True, 0.5)]) is None


def test_reliability_of_honest_probabilities():
    found = reliability([(i % 10 < 3, 0.3) for i in range(100)])
    assert found["expected_calibration_error"] == pytest.approx(0)
    assert found["brier"] == pytest.approx(0.21)


def test_an_interval_is_wider_when_cases_are_alike():
    truths, _scores = _noise()
    apart = interval(truths, [str(i) for i in range(len(truths))], lambda xs: sum(xs) / len(xs))
    alike = interval(sorted(truths), [str(i // 40) for i in range(len(truths))], lambda xs: sum(xs) / len(xs))
    assert apart is not None and alike is not None
    assert apart[0] < sum(truths) / len(truths) < apart[1]
    assert alike[1] - alike[0] > 2 * (apart[1] - apart[0])


def test_the_logistic_fit_finds_a_known_curve():
    rng = random.Random(3)
    values = [rng.uniform(-3, 3) for _ in range(4000)]
    truths = [rng.random() < 1 / (1 + 2.718281828 ** -(0.5 + 1.2 * v)) for v in values]
    intercept, slope = fit_logistic(values, truths, [1.0] * len(values))
    assert intercept == pytest.approx(0.5, abs=0.15)
    assert slope == pytest.approx(1.2, abs=0.15)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "no labelled cases"),
        (b"{]\n", "line 1: not JSON"),
        (b'{"contexts": [], "answer": "x"}\n[1]\n', "line 2: expected an object"),
        (b'{"contexts": [3], "answer": "x"}\n', '"contexts" must be a list of texts'),
        (b"\xff\xfe", "UTF-8"),
        (b"\x1f\x8bbroken", "cannot be read"),
    ],
)
def test_bad_files_are_named(tmp_path, body, said):
    path = tmp_path / "labelled.jsonl"
    path.write_bytes(body)
    with pytest.raises(calibration.BadData, match=r"labelled\.jsonl") as error:
        calibration.read_rows(path)
    assert said in str(error.value)


def _own_rows() -> list[dict[str, Any]]:
    text = "Deleted files are kept for 14 days. The trash counts towards the quota."
    row = {"lang": "en", "question": "how long are deleted files kept", "contexts": [text], "source": "own"}
    return [
        {**row, "id": "1", "family": "a", "answer": "Deleted files are kept for 14 days.", "faithful": 1},
        {**row, "id": "2", "family": "b", "answer": "Deleted files are kept for 99 days.", "faithful": 0},
        {**row, "id": "3", "family": "c", "answer": "I could not find this in the documentation.", "refusal": "full"},
        {**row, "id": "4", "family": "d", "answer": "The trash counts towards the quota.", "refusal": "none"},
    ]


def test_a_small_file_of_ones_own_is_measured(tmp_path):
    path = tmp_path / "own.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, _own_rows())).encode()))
    report = json.loads(calibration.run(path, as_json=True))
    assert report["faithfulness"]["confusion"] == {
        "true_positive": 1,
        "false_negative": 0,
        "false_positive": 0,
        "true_negative": 1,
    }
    assert report["refusal"]["full_against_none"]["balanced_accuracy"] == 1.0
    assert report["leave_one_source_out"] is None
    assert "balanced accuracy 1.000" in calibration.run(path, as_json=False)


@pytest.mark.shared_data
def test_the_level_reached_on_the_development_data(shared_data):
    """Lower bounds a little under the measured figures of docs/judging.md: a change that loses them shows here."""
    rows = calibration.read_rows(shared_data / "judge_dev.jsonl.gz")
    report = calibration.evaluate(rows, LocalJudge())
    faithful, refusal = report["faithfulness"], report["refusal"]["full_against_none"]
    assert faithful["balanced_accuracy"] >= 0.69
    assert faithful["auroc"] >= 0.75
    assert faithful["by_language"]["en"]["balanced_accuracy"] >= 0.66
    assert faithful["at_failure_threshold"]["precision"] >= 0.78
    assert refusal["balanced_accuracy"] >= 0.92
    assert refusal["kappa"] >= 0.85
    copies = report["copies"]
    assert copies["copied_supported"] >= 0.99 * copies["copied"]
    assert copies["altered_contradicted"] >= 0.97 * copies["altered"]
    assert copies["copied_contradicted"] == 0


@pytest.mark.shared_data
def test_the_shipped_numbers_are_those_of_the_fit(shared_data):
    intercept, slope = calibration.fit(calibration.read_rows(shared_data / "judge_dev.jsonl.gz"))
    shipped = local_judge.calibrated()
    assert intercept == pytest.approx(shipped.intercept, abs=0.1)
    assert slope == pytest.approx(shipped.slope, abs=0.1)


@pytest.mark.shared_data
def test_the_shipped_word_counts_are_those_of_the_data(shared_data):
    made = calibration.background_counts(calibration.read_rows(shared_data / "judge_dev.jsonl.gz"))
    shipped = resources.files("groundwatch_scorer").joinpath("background_counts.json").read_text(encoding="utf-8")
    assert json.loads(shipped) == made


def test_a_page_for_people_is_written_in_both_formats(tmp_path):
    data = tmp_path / "own.jsonl"
    data.write_text("\n".join(map(json.dumps, _own_rows())), encoding="utf-8")
    for name in ("report.md", "report.html"):
        calibration.run(data, as_json=True, page=tmp_path / name)
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| all | 2 | 0.500 | 1.000 |" in page
    assert "| en | CONTRADICTED | 1 | 1.000 |" in page
    assert "| under 100 characters | 2 |" in page
    assert "| passages reversed | 0 of 2 |" in page
    assert "0 of 0 claims were called supported" in page  # both have the same passages
    assert "flags 100% of the bad answers and 0% of the good ones" in page
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert html.count("<h2>") == page.count("\n## ")


def test_a_page_shows_data_as_text(tmp_path):
    data = tmp_path / "own.jsonl"
    rows = [{**row, "source": "<b>|x", "id": f"{i}"} for i, row in enumerate(_own_rows() * 5)]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for name in ("report.md", "report.html"):
        calibration.run(data, as_json=True, page=tmp_path / name)
    assert "&lt;b&gt;|x" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<b>\\|x" in (tmp_path / "report.md").read_text(encoding="utf-8")


class _Wavering:
    """Says something else of every second reading."""

    identifier = "wavering"

    def __init__(self) -> None:
        self.readings = 0

    def assess(self, trace: RagTrace) -> Assessment:
        self.readings += 1
        probability = 0.9 if self.readings % 2 else 0.2
        verdict = Verdict.NOT_MENTIONED if self.readings % 2 else Verdict.SUPPORTED
        claim = ClaimVerdict("x", 0, 1, verdict, probability)
        return Assessment(self.identifier, AnnotatorKind.CODE, claims=(claim,))


def test_a_judge_that_wavers_is_seen_to():
    trace = calibration.trace_of(_own_rows()[0])
    found = stability([trace], _Wavering())
    assert found["flagged"] == 1
    assert found["largest_spread"] == pytest.approx(0.7)
    assert found["moved"]["passages_reversed"] == 1


class _Believing:
    """Supports whatever it is asked about."""

    identifier = "believing"

    def assess(self, trace: RagTrace) -> Assessment:
        claim = ClaimVerdict(trace.answer or "", 0, 1, Verdict.SUPPORTED, 0.1)
        return Assessment(self.identifier, AnnotatorKind.CODE, claims=(claim,))


def test_a_judge_that_supports_a_claim_from_the_passages_of_another_case_is_seen_to():
    parking = {"lang": "en", "question": "what does parking cost", "contexts": ["Parking is free on Sundays."]}
    rows = [
        *_own_rows()[:2],
        {**parking, "answer": "Parking is free."},
        {**parking, "answer": "It is free on Sundays."},
    ]
    traces = [calibration.trace_of(row) for row in rows]
    assert stability(traces, _Believing())["false_support"] == {"cases": 4, "claims": 4, "supported": 4}
    assert stability(traces, LocalJudge())["false_support"]["supported"] == 0
    assert stability([traces[0], traces[0]], _Believing())["false_support"]["cases"] == 0  # no passages but its own


def test_the_local_judge_reads_the_same_again():
    found = stability([calibration.trace_of(row) for row in _own_rows()], LocalJudge())
    assert (found["cases"], found["flagged"], found["largest_spread"]) == (4, 0, 0.0)
    assert found["moved"] == {"passages_reversed": 0, "unrelated_passage_added": 0, "blank_lines_added": 0}
