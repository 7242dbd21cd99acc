"""Kappa of judge and people: the published figures, an interval that holds, and only what was drawn counts."""

from __future__ import annotations

import math
import random

import pytest
from prometheus_client import CollectorRegistry
from queue_rows import queue_row
from sqlalchemy import Engine, insert

from groundwatch_alerts import agreement_rows
from groundwatch_alerts.agreement_metrics import AgreementCollector
from groundwatch_alerts.judge_agreement import Pair, agreement, standard_error
from groundwatch_collector.tables import sampled_traces
from groundwatch_scorer import judgement_store, second_look
from groundwatch_scorer.judgement import AnnotatorKind, Criterion, Judgement
from groundwatch_scorer.second_look import PEOPLE, SecondLook

T0 = 1_700_000_000.0
MODEL = "llm:m:rubric-v1"


def table(both: int, judge: int, people: int, neither: int, weight: float = 1.0) -> list[Pair]:
    counts = {(True, True): both, (True, False): judge, (False, True): people, (False, False): neither}
    return [Pair(*verdicts, weight) for verdicts, count in counts.items() for _ in range(count)]


def large_sample_error(a: float, b: float, c: float, d: float) -> float:
    """The formula of Fleiss, Cohen and Everitt (1969) for two by two shares, over the root of n."""
    rows, columns = (a + b, c + d), (a + c, b + d)
    agree, chance = a + d, rows[0] * columns[0] + rows[1] * columns[1]
    kappa = (agree - chance) / (1 - chance)
    on = sum(p * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i, p in enumerate((a, d)))
    off = (1 - kappa) ** 2 * (b * (columns[0] + rows[1]) ** 2 + c * (columns[1] + rows[0]) ** 2)
    return math.sqrt(on + off - (kappa - chance * (1 - kappa)) ** 2) / (1 - chance)


def test_kappa_and_its_error_are_those_of_the_textbook() -> None:
    pairs = table(20, 5, 10, 15)
    found = agreement(pairs)
    assert found is not None
    assert found.kappa == pytest.approx(0.4)
    expected = large_sample_error(0.4, 0.1, 0.2, 0.3) / math.sqrt(len(pairs) - 1)
    assert standard_error(pairs) == pytest.approx(expected)
    assert found.low < 0.4 - 1.9 * expected
    assert found.high > 0.4 + 1.9 * expected


def test_a_label_of_twice_the_weight_counts_as_two() -> None:
    light = agreement(table(20, 5, 10, 40))
    heavy = agreement(table(20, 5, 10, 0) + table(0, 0, 0, 20, weight=2.0))
    assert light is not None
    assert heavy is not None
    assert heavy.kappa == pytest.approx(light.kappa)
    assert heavy.high - heavy.low > light.high - light.low  # but tells less than two


@pytest.mark.parametrize("pairs", [[], table(20, 5, 10, 14), table(4, 0, 0, 60), table(60, 0, 0, 4)])
def test_too_few_labels_give_no_kappa(pairs: list[Pair]) -> None:
    assert agreement(pairs) is None


def test_labels_that_all_agree_are_no_proof_of_a_perfect_judge() -> None:
    found = agreement(table(10, 0, 0, 40))
    assert found is not None
    assert found.kappa == found.high == 1.0
    assert found.low < 0.9


def test_the_interval_holds_where_unsure_verdicts_are_read_more_often() -> None:
    base, sensitivity, false_positives = 0.1, 0.6, 0.2
    said = base * sensitivity + (1 - base) * false_positives
    chance = said * base + (1 - said) * (1 - base)
    truth = (base * sensitivity + (1 - base) * (1 - false_positives) - chance) / (1 - chance)
    draw = random.Random(3)

    def labels() -> list[Pair]:
        people = [draw.random() < base for _ in range(2000)]
        judge = [draw.random() < (sensitivity if bad else false_positives) for bad in people]
        chances = [0.3 if failed else 0.12 for failed in judge]
        every = zip(judge, people, chances, strict=True)
        return [Pair(failed, bad, 1 / p) for failed, bad, p in every if draw.random() < p]

    found = [known for _ in range(200) if (known := agreement(labels())) is not None]
    assert len(found) > 190
    assert sum(known.kappa for known in found) / len(found) == pytest.approx(truth, abs=0.02)
    covered = sum(known.low <= truth <= known.high for known in found) / len(found)
    assert covered >= 0.95 - 2 * math.sqrt(0.95 * 0.05 / len(found))


def verdict(trace_id: str, failed: bool, kind: AnnotatorKind, name: str) -> Judgement:
    return Judgement(trace_id, Criterion.ANY_FAILURE, "fail" if failed else "pass", None, "", kind, name, T0)


def fill(engine: Engine, count: int = 240) -> None:
    """People fail every fourth trace, local every second; the model agrees with people and read every third."""
    with engine.begin() as connection:
        connection.execute(insert(sampled_traces), [queue_row(f"t{i}", "yes", T0) for i in range(count)])
        for i in range(count):
            rows = [verdict(f"t{i}", i % 2 == 0, AnnotatorKind.CODE, "local")]
            if i % 3 == 0:
                rows.append(verdict(f"t{i}", i % 4 == 0, AnnotatorKind.LLM, MODEL))
            rows.append(verdict(f"t{i}", i % 4 != 0, AnnotatorKind.HUMAN, "reviewer:rv_1"))  # taken back below
            rows.append(verdict(f"t{i}", i % 4 == 0, AnnotatorKind.HUMAN, "reviewer:rv_2"))
            judgement_store.append(connection, rows)
            drawn = i < count - 40
            looks = [SecondLook(MODEL, 1 / 3, i % 3 == 0, False), SecondLook(PEOPLE, 0.25, drawn, False)]
            second_look.keep(connection, f"t{i}", looks)


def test_only_what_was_drawn_counts_with_its_chances_and_the_last_word(engine: Engine) -> None:
    fill(engine)
    pairs = agreement_rows.read(engine, since=T0)
    assert {judge: len(found) for judge, found in pairs.items()} == {"local": 200, MODEL: 67}
    assert [pair.weight for pair in pairs["local"]] == pytest.approx([2 / 0.25] * 200)
    assert [pair.weight for pair in pairs[MODEL]] == pytest.approx([2 / 0.25 * 3] * 67)
    assert all(pair.judge_failed is pair.people_failed for pair in pairs[MODEL])
    assert agreement_rows.read(engine, since=T0 + 1) == {}


def test_the_gauges_speak_of_the_configured_judges_and_are_absent_without_labels(engine: Engine) -> None:
    registry = CollectorRegistry()
    at = [0.0]
    registry.register(AgreementCollector(engine, ["local", "other"], now=lambda: T0 + 60, clock=lambda: at[0]))
    value = registry.get_sample_value
    assert value("groundwatch_judge_kappa_labels", {"judge": "local"}) == 0
    assert value("groundwatch_judge_kappa", {"judge": "local"}) is None
    fill(engine)
    assert value("groundwatch_judge_kappa_labels", {"judge": "local"}) == 0  # read a moment ago
    at[0] += 61
    kappa, low, high = (value(f"groundwatch_judge_kappa{end}", {"judge": "local"}) for end in ("", "_low", "_high"))
    assert kappa == pytest.approx(0.5)
    assert low is not None
    assert high is not None
    assert low < 0.5 < high
    assert value("groundwatch_judge_kappa", {"judge": "other"}) is None
    assert value("groundwatch_judge_kappa_labels", {"judge": MODEL}) is None


def test_a_database_that_is_away_leaves_the_metrics_of_others(empty_engine: Engine) -> None:
    registry = CollectorRegistry()
    registry.register(AgreementCollector(empty_engine, ["local"], now=lambda: T0))
    assert registry.get_sample_value("groundwatch_judge_kappa_read_errors_total") == 1
