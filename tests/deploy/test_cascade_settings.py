"""[judge] cascade: off by default, and a chance that is none is refused by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from groundwatch_collector.ragtrace import RagTrace
from groundwatch_deploy.config import ConfigError, JudgeConfig
from groundwatch_deploy.serve import cascade
from groundwatch_scorer.judgement import Assessment, Judge

SALT = b"a salt of this test"


@dataclass(frozen=True)
class Named:
    identifier: str

    def assess(self, trace: RagTrace) -> Assessment:
        raise NotImplementedError


LOCAL: Judge = Named("local")
MODEL: Judge = Named("llm:m:rubric-v1")


def test_every_judge_reads_everything_unless_told_otherwise() -> None:
    assert cascade(JudgeConfig(), [LOCAL, MODEL], SALT) is None


def test_the_model_is_asked_by_choice_and_without_one_only_people() -> None:
    both = cascade(JudgeConfig(cascade=True), [LOCAL, MODEL], SALT)
    assert both is not None
    assert both.model is not None
    assert (both.model.asked, both.people.asked) == (MODEL.identifier, "people")
    assert both.model.look("t1", unsure=True).chance == 0.3
    alone = cascade(JudgeConfig(cascade=True), [LOCAL], SALT)
    assert alone is not None
    assert alone.model is None


@pytest.mark.parametrize("name", ["cascade_unsure_chance", "cascade_sure_chance", "people_sure_chance"])
def test_a_chance_that_is_none_is_refused(name: str) -> None:
    changed: dict[str, Any] = {name: 0.0}
    with pytest.raises(ConfigError, match=r"\[judge\] cascade: chance where .*: found 0.0, accepted: above 0"):
        cascade(replace(JudgeConfig(cascade=True), **changed), [LOCAL, MODEL], SALT)
