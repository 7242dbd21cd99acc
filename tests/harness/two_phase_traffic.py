"""Simulated traffic that a weak judge reads whole and a better one in part, through the product's own choice.

The first judge errs at given rates, or as one really did on labelled rows; the second is taken as the truth.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from groundwatch_alerts.corrected import Corrected, Refused, Twice, corrected
from groundwatch_scorer import criteria
from groundwatch_scorer.calibration import Row, trace_of
from groundwatch_scorer.judgement import Criterion, Judge
from groundwatch_scorer.second_look import Chances, Choice

SENSITIVITY, FALSE_POSITIVE_RATE = 0.76, 0.31
"""Of a local judge on labelled examples of both languages, where a verdict was forced."""

_STRATA = (("normal", 0.90, 1.0, 0.02), ("suspicious", 0.07, 3.0, 0.10), ("feedback_neg", 0.03, 8.0, 0.25))
"""Name, share of traffic, failures relative to normal, inclusion probability."""


CHANCES = Chances(unsure=0.3, sure=0.12)
"""The defaults of ``[judge] cascade``."""


Verdicts = Mapping[bool, Sequence[bool | None]]
"""First verdicts (None: abstained), of failures and of the rest."""


@dataclass(frozen=True, slots=True)
class World:
    """One day of traffic with a known failure rate."""

    rate: float
    requests: int = 50_000
    sensitivity: float = SENSITIVITY
    false_positive_rate: float = FALSE_POSITIVE_RATE
    chances: Chances = CHANCES
    answered: float = 1.0  # share of second verdicts that come in
    verdicts: Verdicts | None = None  # of a first judge that was measured, in place of the two rates

    def run(self, seed: int) -> tuple[float, Corrected | Refused]:
        """The true share of failures in this run, and the estimate."""
        rng = random.Random(seed)
        choice = Choice("llm:m:rubric-v1", self.chances, b"salt of the simulation")
        scale = self.rate / sum(share * ratio for _name, share, ratio, _chance in _STRATA)
        traffic: dict[str, float] = {}
        rows: list[Twice] = []
        failures = 0
        for name, share, ratio, chance in _STRATA:
            size = round(self.requests * share)
            traffic[name] = float(size)
            failing = sum(rng.random() < min(1.0, ratio * scale) for _ in range(size))
            failures += failing
            for failed, count in ((True, failing), (False, size - failing)):
                rows += [
                    self._row(rng, choice, f"{seed}-{name}-{failed}-{i}", name, chance, failed)
                    for i in range(count)
                    if rng.random() < chance
                ]
        return failures / sum(traffic.values()), corrected(traffic, rows)

    def _row(
        self, rng: random.Random, choice: Choice, trace_id: str, stratum: str, chance: float, failed: bool
    ) -> Twice:
        first = self._first(rng, failed)
        look = choice.look(trace_id, first is not False)
        read = look.chosen and rng.random() < self.answered
        return Twice(stratum, 1 / chance, first, look.unsure, look.chance, look.chosen, failed if read else None)

    def _first(self, rng: random.Random, failed: bool) -> bool | None:
        if self.verdicts is not None:
            return rng.choice(self.verdicts[failed])
        flagged = rng.random() < (self.sensitivity if failed else self.false_positive_rate)
        return None if rng.random() < 0.1 else flagged


def measured(rows: Iterable[Row], judge: Judge) -> Verdicts:
    """What *judge* says of the headline, by whether people call the answer unfaithful. Labelled rows only.

    Rows to which the headline does not apply (a refusal, no claim) are left out, as the estimate leaves them out.
    """
    found: dict[bool, list[bool | None]] = {True: [], False: []}
    for row in rows:
        if row.get("faithful") is None or not (row["answer"] or "").strip():
            continue
        trace = trace_of(row)
        headline = next(
            j for j in criteria.judgements(trace, judge.assess(trace), 0.0) if j.criterion is Criterion.ANY_FAILURE
        )
        if headline.label != "not_applicable":
            found[row["faithful"] == 0].append(headline.failed)
    return found
