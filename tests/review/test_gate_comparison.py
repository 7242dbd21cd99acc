"""The gate's test: exact, honest under noise, blind to nothing that counts."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from scipy import stats

from groundwatch_review.gate import baseline, report
from groundwatch_review.gate.comparison import SetChange, bootstrap, compare, drop_p_value, holm, set_change
from groundwatch_review.gate.makeup import Makeup, smallest_difference
from groundwatch_review.gate.running import ItemResult, Try
from groundwatch_review.gate.verdict import decide

SCORES = ("evidence_recall_at_k", "context_recall", "faithfulness", "answer_correctness", "refusal_correctness")


def a_run(values, family=lambda index: f"f{index}"):
    """One item for each entry; an entry is a value for every score, a mapping, or None for a failed execution."""
    results = []
    for index, value in enumerate(values):
        if value is None:
            results.append(ItemResult(f"i{index}", family(index), (Try("timeout", 1.0),)))
            continue
        scores = value if isinstance(value, dict) else dict.fromkeys(SCORES, value)
        results.append(ItemResult(f"i{index}", family(index), (Try("ok", 1.0),), scores))
    return results


def change(before, after, name):
    return next(c for c in compare(before, after) if c.name == name)


@pytest.mark.parametrize(("worse", "better"), [(5, 0), (6, 1), (9, 3), (3, 3)])
def test_on_zeros_and_ones_the_test_is_mcnemars_exact_test(worse, better):
    differences = [-1.0] * worse + [1.0] * better + [0.0] * 40
    assert drop_p_value(differences) == pytest.approx(stats.binom.cdf(better, worse + better, 0.5))


def test_with_many_differences_drawn_signs_agree_with_the_exact_value():
    graded = [-1.0] * 25 + [1.0] * 11 + [1.0 + 1e-9]  # one value that is not like the rest: no longer McNemar's case
    assert drop_p_value(graded) == pytest.approx(stats.binom.cdf(12, 37, 0.5), abs=0.005)


def test_no_difference_is_no_evidence():
    assert drop_p_value([0.0] * 50) == 1.0
    assert bootstrap([0.0] * 50) == (0.0, 0.0)


def test_holm_adjusts_as_published():
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})


def test_twenty_items_that_fail_together_are_one_piece_of_evidence():
    before, after = a_run([1.0] * 60), a_run([0.0] * 20 + [1.0] * 40)
    assert change(before, after, "faithfulness").blocks

    def family(index):
        return "page" if index < 20 else f"f{index}"

    alike = change(a_run([1.0] * 60, family), a_run([0.0] * 20 + [1.0] * 40, family), "faithfulness")
    assert (alike.families, alike.worse, alike.blocks) == (41, 20, False)


def test_not_applicable_makes_no_pair_and_no_zero():
    before = a_run([1.0, 1.0, {"faithfulness": None}])
    after = a_run([1.0, {"faithfulness": None}, 1.0])
    found = change(before, after, "faithfulness")
    assert (found.pairs, found.before, found.after) == (1, 1.0, 1.0)


def test_failed_executions_have_their_own_denominator_and_can_block():
    before, after = a_run([1.0] * 40), a_run([None] * 12 + [1.0] * 28)
    assert change(before, after, "execution_success").blocks
    assert change(before, after, "faithfulness").after == 1.0


def test_noise_blocks_in_at_most_one_run_of_twenty():
    """Two runs of one version: 150 items whose five scores each come out right with a chance of their own."""
    draw = random.Random(11)
    runs, blocked = 120, 0
    for _ in range(runs):
        chances = [draw.betavariate(8, 1) for _ in range(150)]
        before, after = ([{n: float(draw.random() < c) for n in SCORES} for c in chances] for _ in range(2))
        blocked += any(c.blocks for c in compare(a_run(before), a_run(after)))
    assert blocked / runs <= 0.05 + 2 * (0.05 * 0.95 / runs) ** 0.5


def test_a_drop_of_fifteen_points_is_seen():
    draw = random.Random(12)
    before = a_run([float(draw.random() < 0.95) for _ in range(150)])
    after = a_run([float(draw.random() < 0.80) for _ in range(150)])
    assert change(before, after, "answer_correctness").blocks


def test_a_hundred_items_at_ninety_percent_are_known_to_six_points():
    assert smallest_difference(0.9, 100) == pytest.approx(0.0588, abs=1e-4)


def test_a_run_comes_back_from_its_file_without_the_answers(tmp_path):
    run = baseline.Run(tuple(a_run([1.0, None])), 5, "local-v1", "1.2")
    baseline.save(tmp_path / "base.json", run)
    assert baseline.load(tmp_path / "base.json") == run


@pytest.mark.parametrize("ruler", [{"k": 3}, {"judge": "other"}])
def test_runs_of_different_rulers_are_not_compared(ruler):
    before = baseline.Run(tuple(a_run([1.0])), 5, "local-v1")
    after = baseline.Run(tuple(a_run([1.0])), **({"k": 5, "judge": "local-v1"} | ruler))
    with pytest.raises(baseline.BadBaseline, match="measure it again"):
        baseline.check_comparable(before, after)


@pytest.mark.parametrize("text", ["", "[]", '{"format": "x"}', '{"format": "urn:groundwatch:gate-run:1", "k": 1}'])
def test_a_file_that_is_no_run_is_refused(tmp_path, text):
    (tmp_path / "base.json").write_text(text)
    with pytest.raises(baseline.BadBaseline, match=r"not a saved run|not readable|damaged"):
        baseline.load(tmp_path / "base.json")


def test_an_id_with_line_breaks_stays_in_its_cell():
    results = (ItemResult("i\n\n# Passed", "f", (Try("ok", 1.0),), {"faithfulness": 1.0}),)
    before = (ItemResult("i\n\n# Passed", "f", (Try("ok", 1.0),), {"faithfulness": 0.0}),)
    makeup = Makeup(1, 1, {}, {}, {}, {}, {}, 0, 0, 1, 0.5)
    found = decide(baseline.Run(results, 5, "local-v1"), makeup, baseline.Run(before, 5, "local-v1"))
    said = report.markdown(found)
    assert "| i # Passed | faithfulness 0.000 to 1.000 |" in said
    assert "1 items say only what must not be answered" in said
    assert "\n# Passed" not in said[2:]


def test_a_baseline_without_digests_is_compared_and_says_what_it_cannot_see(tmp_path):
    """As written by the version before; and one with digests keeps them through the file."""
    after = ItemResult("i", "f", (Try("ok", 1.0),), {"faithfulness": 1.0}, digest="a")
    old = ItemResult("i", "f", (Try("ok", 1.0),), {"faithfulness": 1.0})
    assert set_change([old], [after]).unknown
    assert set_change([old], [after]).same == 1
    baseline.save(tmp_path / "b.json", baseline.Run((after,), 5, "local-v1"))
    assert set_change(baseline.load(tmp_path / "b.json").results, [after]) == SetChange(same=1)
    edited = replace(after, digest="b")
    with pytest.raises(baseline.BadBaseline, match="changed since"):
        baseline.check_comparable(baseline.load(tmp_path / "b.json"), baseline.Run((edited,), 5, "local-v1"))


@pytest.mark.parametrize(
    "damage",
    [
        {"tries": []},
        {"scores": {"faithfulness": "1"}},
        {"scores": {"faithfulness": float("nan")}},
        {"scores": {"faithfulness": 1.5}},
        {"scores": []},
    ],
    ids=["no try", "text", "nan", "above one", "list"],
)
def test_a_damaged_baseline_is_refused_and_blocks_nobody(tmp_path, damage):
    path = tmp_path / "base.json"
    baseline.save(path, baseline.Run(tuple(a_run([1.0, 1.0])), 5, "local-v1"))
    document = json.loads(path.read_text())
    document["results"][1] |= damage
    path.write_text(json.dumps(document))
    with pytest.raises(baseline.BadBaseline, match="damaged"):
        baseline.load(path)
