"""Second looks: chosen by a hash of their own, with a chance that is kept and that every verdict is weighed by."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from queue_rows import put_in_queue
from sqlalchemy import Engine, select

from groundwatch_collector.ragtrace import RagTrace
from groundwatch_collector.sampling import included, u56
from groundwatch_scorer.judgement import AnnotatorKind, Assessment, Criterion, Judgement
from groundwatch_scorer.scorer_metrics import ScorerMetrics
from groundwatch_scorer.second_look import PEOPLE, Cascade, Chances, Choice, is_open, is_unsure
from groundwatch_scorer.tables import second_looks, verdict_tally
from groundwatch_scorer.worker import ScorerWorker

T0 = 1_700_000_000.0
MODEL = "llm:m:rubric-v1"
SALT = b"a salt of this test"


class WordJudge:
    """Fails an answer that contains its word."""

    def __init__(self, identifier: str, word: str) -> None:
        self.identifier = identifier
        self.word = word
        self.seen: list[str] = []

    def assess(self, trace: RagTrace) -> Assessment:
        self.seen.append(trace.trace_id)
        said = "fail" if self.word in (trace.answer or "") else "pass"
        return Assessment(self.identifier, AnnotatorKind.CODE, explanation=said)


def judgements(trace: RagTrace, said: Assessment, at: float) -> list[Judgement]:
    headline = Criterion.ANY_FAILURE
    return [Judgement(trace.trace_id, headline, said.explanation, None, "", said.annotator_kind, said.identifier, at)]


def run(engine: Engine, chances: Chances, answers: int = 60) -> tuple[WordJudge, CollectorRegistry]:
    local, model = WordJudge("local", "bad"), WordJudge(MODEL, "awful")
    registry = CollectorRegistry()
    cascade = Cascade(Choice(MODEL, chances, SALT), Choice(PEOPLE, Chances(1.0, 0.5), SALT))
    put_in_queue(engine, T0, *("bad awful" if i % 3 == 0 else "good" for i in range(answers)))
    worker = ScorerWorker(
        engine,
        [local, model],
        ScorerMetrics(registry),
        bucket_seconds=60,
        now=lambda: T0 + 200,
        batch=answers,
        to_judgements=judgements,
        cascade=cascade,
    )
    assert worker.step() == answers
    return model, registry


def test_the_model_reads_what_is_unsure_and_a_known_part_of_the_rest(engine: Engine) -> None:
    model, registry = run(engine, Chances(unsure=1.0, sure=0.25))
    unsure = {f"t{i}" for i in range(0, 60, 3)}
    assert unsure < set(model.seen) < {f"t{i}" for i in range(60)}
    with engine.connect() as connection:
        looks = connection.execute(select(second_looks).where(second_looks.c.asked == MODEL)).all()
    assert {row.trace_id for row in looks if row.chosen} == set(model.seen)
    assert {(row.unsure, row.chance) for row in looks} == {(True, 1.0), (False, 0.25)}
    count = registry.get_sample_value
    name = "groundwatch_second_looks_total"
    assert count(name, {"by": "model", "chosen": "yes", "unsure": "yes"}) == 20
    assert count(name, {"by": "model", "chosen": "no", "unsure": "yes"}) == 0
    assert count(name, {"by": "people", "chosen": "yes", "unsure": "yes"}) == 0  # the judges agree


def test_the_verdict_of_a_judge_that_is_asked_with_a_chance_weighs_more(engine: Engine) -> None:
    model, _ = run(engine, Chances(unsure=1.0, sure=0.25))
    sure = len(model.seen) - 20
    with engine.connect() as connection:
        sums = {row.judge: row for row in connection.execute(select(verdict_tally))}
    assert (sums["local"].weight, sums["local"].fail_weight) == (120.0, 40.0)  # each was sampled with one half
    assert (sums[MODEL].weight, sums[MODEL].fail_weight) == (40.0 + sure * 8.0, 40.0)
    assert sums[MODEL].weight_sq == 20 * 4.0 + sure * 64.0


def test_the_choice_is_the_same_on_every_replica_and_independent_of_the_sample() -> None:
    ids = [f"trace-{i}" for i in range(20_000)]
    choice, again = (Choice(MODEL, Chances(0.5, 0.3), SALT) for _ in range(2))
    chosen = [choice.look(i, unsure=False).chosen for i in ids]
    assert chosen == [again.look(i, unsure=False).chosen for i in ids]
    sampled = [included(u56(i, SALT), 0.2) for i in ids]
    people = [Choice(PEOPLE, Chances(0.5, 0.3), SALT).look(i, unsure=False).chosen for i in ids]
    for others, share in ((sampled, 0.2), (people, 0.3)):
        both = sum(a and b for a, b in zip(chosen, others, strict=True)) / len(ids)
        assert both == pytest.approx(0.3 * share, abs=4 * (0.3 * share / len(ids)) ** 0.5)


@pytest.mark.parametrize("chance", [0.0, -0.1, 1.5, float("nan")])
def test_a_chance_that_is_none_is_refused(chance: float) -> None:
    with pytest.raises(ValueError, match="chance where sure: found"):
        Chances(1.0, chance)


def test_what_is_unsure_and_what_two_readings_leave_open() -> None:
    passed = Judgement("t", Criterion.ANY_FAILURE, "pass", None, "", AnnotatorKind.CODE, "local", T0)
    failed, silent = replace(passed, label="fail"), replace(passed, label="unscored")
    assert [is_unsure([j]) for j in (passed, failed, silent)] == [False, True, True]
    assert is_unsure([])
    assert is_open([passed], [failed])
    assert is_open([failed], [silent])
    assert is_open([failed], [])
    assert not is_open([failed], [failed])
    assert not is_open([silent], [passed])
    assert not is_open([passed], [silent])
