"""How honest is the demo? Truth against estimate over many seeds, without network or database.

``python -m groundwatch_deploy.demo.measure --seeds 10`` runs the real application, users, strata, inclusion, local
judge and estimator; only the transport between them is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groundwatch_alerts import estimator
from groundwatch_alerts.estimator import Estimate, StratumSums
from groundwatch_collector import sampling, signals, strata
from groundwatch_collector.decision import DecideConfig
from groundwatch_collector.ragtrace import Citation, Document, Feedback, Outcome, RagTrace
from groundwatch_deploy.demo import corpus, questions, traffic, truth
from groundwatch_deploy.demo.app import RagApp, Reply
from groundwatch_deploy.demo.behaviour import INCIDENTS, INJECTED_LAYER, Incident, deployed
from groundwatch_deploy.demo.questions import Bank
from groundwatch_deploy.demo.retrieval import Hit, Index
from groundwatch_deploy.demo.sampling_rates import DEMO_RATES
from groundwatch_deploy.demo.traffic import SERVICE, Handled
from groundwatch_scorer import criteria, fault
from groundwatch_scorer.judgement import Criterion
from groundwatch_scorer.local_judge import LocalJudge

SALT = b"groundwatch-demo-measure"
HEALTHY_REQUESTS = 2_000
BAD_REQUESTS = 1_200


@dataclass(frozen=True, slots=True)
class Verdict:
    label: str  # pass | fail | not_applicable | unscored
    layer: str


@dataclass(frozen=True, slots=True)
class Measured:
    """One version under one seed."""

    incident: str  # "" for the healthy version
    seed: int
    completed: int
    true_rate: float
    estimate: Estimate
    layers: dict[str, float]  # weight of judged failures by layer
    confusion: Counter[tuple[str, str, str]]  # (language, why it truly failed or "good", the judge's label)

    @property
    def covered(self) -> bool:
        return self.estimate.low <= self.true_rate <= self.estimate.high_shown

    @property
    def raw_mean_inside(self) -> bool:
        return self.estimate.low <= self.estimate.raw_mean <= self.estimate.high_shown

    @property
    def found_layer(self) -> str:
        return max(self.layers, key=lambda layer: self.layers[layer], default="")


class Bench:
    """Corpus, index and judge, made once; verdicts are remembered, since most requests repeat."""

    def __init__(self) -> None:
        passages = corpus.load()
        self.index = Index(passages)
        self.bank: Bank = questions.load(passages)
        self._judge = LocalJudge()
        self._known: dict[tuple[object, ...], Verdict] = {}
        self._cuts = DecideConfig().cuts()

    def run(self, incident: Incident | None, seed: int, requests: int) -> Measured:
        """Serve, sample, judge and estimate; every completed request is also judged for the confusion counts."""
        app = RagApp(deployed(incident), self.index)
        planned = traffic.plan(self.bank, app.behaviour.version, seed, requests)
        return self._measure(incident or "", seed, [traffic.handle(app, one) for one in planned])

    def _measure(self, incident: str, seed: int, served: Sequence[Handled]) -> Measured:
        sums: dict[str, list[float]] = {}
        layers: dict[str, float] = {}
        confusion: Counter[tuple[str, str, str]] = Counter()
        for one in (h for h in served if h.truth.completed):
            trace = rag_trace(one)
            stratum = strata.classify(trace, signals.measure(trace), self._cuts)
            verdict = self._verdict(trace)
            confusion["zh" if one.truth.chinese else "en", one.truth.why or "good", verdict.label] += 1
            added = _sums(trace.trace_id, verdict, DEMO_RATES[stratum])
            sums[stratum] = [a + b for a, b in zip(sums.get(stratum, [0.0] * len(added)), added, strict=True)]
            if added[4] and verdict.label == "fail":
                layers[verdict.layer] = layers.get(verdict.layer, 0.0) + added[1]
        failed, completed = truth.failure_rate(h.truth for h in served)
        found = estimator.estimate([_stratum(name, values) for name, values in sums.items()])
        assert found is not None  # a run has hundreds of judged traces
        return Measured(incident, seed, completed, failed / completed, found, layers, confusion)

    def _verdict(self, trace: RagTrace) -> Verdict:
        context = tuple(document.id for document in trace.context or ())
        key = (trace.query, trace.answer, context, trace.outcome)
        if key not in self._known:
            reading = self._judge.assess(trace)
            headline = next(
                j for j in criteria.judgements(trace, reading, 0.0) if j.criterion is Criterion.ANY_FAILURE
            )
            finding = fault.find(trace, reading)
            self._known[key] = Verdict(headline.label, finding.layer if finding else "")
        return self._known[key]


def rag_trace(handled: Handled) -> RagTrace:
    """The trace that the collector would assemble of this request."""
    reply = handled.reply
    answer = reply.answer
    return RagTrace(
        trace_id=handled.planned.trace_id,
        app=SERVICE,
        version=handled.truth.version,
        started_at=handled.truth.started_at,
        duration_seconds=0.0,
        outcome=Outcome(reply.outcome),
        outcome_source="recorded",
        query=reply.query,
        rewritten_query=reply.rewritten.text if reply.rewritten else None,
        candidates=_documents(reply.candidates),
        reranked=_documents(reply.reranked),
        context=_context(reply),
        answer=answer.text if answer else None,
        citations=tuple(Citation(source, marker) for source, marker in answer.cited) if answer else (),
        retries=reply.retries,
        feedback=_feedback(handled),
    )


def _documents(hits: Iterable[Hit]) -> tuple[Document, ...]:
    return tuple(
        Document(hit.passage.id, rank, hit.score, hit.passage.text, title=hit.passage.title)
        for rank, hit in enumerate(hits, start=1)
    )


def _context(reply: Reply) -> tuple[Document, ...]:
    return tuple(Document(p.id, rank, text=p.text, title=p.title) for rank, p in enumerate(reply.context, start=1))


def _feedback(handled: Handled) -> tuple[Feedback, ...]:
    if handled.reaction is None:
        return ()
    return (Feedback("1", handled.planned.trace_id, "thumbs", handled.reaction.sentiment),)


def _sums(trace_id: str, verdict: Verdict, probability: float) -> list[float]:
    """What one trace adds: traffic, then weight, failed weight, weight squared, judged, failed, not applicable."""
    if not sampling.included(sampling.u56(trace_id, SALT), probability):
        return [1, 0, 0, 0, 0, 0, 0]
    weight = 1 / probability
    if verdict.label not in ("pass", "fail"):
        return [1, 0, 0, 0, 0, 0, weight]
    failed = verdict.label == "fail"
    return [1, weight, weight * failed, weight * weight, 1, failed, 0]


def _stratum(name: str, sums: Sequence[float]) -> StratumSums:
    traffic_count, weight, fail_weight, weight_sq, judged, failed, not_applicable = sums
    return StratumSums(name, traffic_count, weight, fail_weight, weight_sq, int(judged), int(failed), not_applicable)


def summary(runs: Sequence[Measured]) -> dict[str, object]:
    """What the seeds of one version say together."""
    confusion: Counter[tuple[str, str, str]] = sum((run.confusion for run in runs), Counter())
    incident = runs[0].incident
    injected = INJECTED_LAYER[incident] if incident in INCIDENTS else ""
    return {
        "version": incident or "healthy",
        "seeds": len(runs),
        "covered": sum(run.covered for run in runs),
        "raw_mean_inside": sum(run.raw_mean_inside for run in runs),
        "injected_layer_most_frequent": sum(run.found_layer == injected for run in runs) if injected else None,
        "true_rate": _mean([run.true_rate for run in runs]),
        "estimate": _mean([run.estimate.rate for run in runs]),
        "half_width": _mean([(run.estimate.high_shown - run.estimate.low) / 2 for run in runs]),
        "raw_mean": _mean([run.estimate.raw_mean for run in runs]),
        "judged": _mean([run.estimate.judged for run in runs]),
        "judge": {language: _error_rates(confusion, language) for language in ("en", "zh")},
    }


def _error_rates(confusion: Counter[tuple[str, str, str]], language: str) -> dict[str, str]:
    """Share judged as failed, by what truly happened: sensitivity per kind of failure, false alarms for "good"."""
    kinds = sorted({why for found, why, _label in confusion if found == language})
    counts = {why: (confusion[language, why, "fail"], confusion[language, why, "pass"]) for why in kinds}
    return {why: f"{failed}/{failed + passed}" for why, (failed, passed) in counts.items()}


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one JSON line per version; progress goes to standard error."""
    parser = argparse.ArgumentParser(prog="python -m groundwatch_deploy.demo.measure", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--incident", choices=("healthy", *INCIDENTS), action="append", help="default: all")
    given = parser.parse_args(arguments)
    bench = Bench()
    for name in given.incident or ("healthy", *INCIDENTS):
        incident = None if name == "healthy" else name
        requests = HEALTHY_REQUESTS if incident is None else BAD_REQUESTS
        runs = []
        for seed in range(1, given.seeds + 1):
            begun = time.monotonic()
            runs.append(bench.run(incident, seed, requests))
            print(_line(runs[-1], time.monotonic() - begun), file=sys.stderr, flush=True)
        print(json.dumps(summary(runs)), flush=True)
    return 0


def _line(run: Measured, seconds: float) -> str:
    found = run.estimate
    return (
        f"{run.incident or 'healthy'} seed {run.seed}: true {run.true_rate:.2%}, estimate {found.rate:.2%} "
        f"({found.low:.2%} - {found.high_shown:.2%}), raw mean {found.raw_mean:.2%}, {found.judged} judged, "
        f"layer {run.found_layer}, {'covered' if run.covered else 'MISSED'} ({seconds:.1f} s)"
    )


if __name__ == "__main__":
    sys.exit(main())
