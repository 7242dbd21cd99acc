"""The demo's story: healthy traffic, a bad deploy, and at the end the truth beside what Groundwatch estimated."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func, select

from groundwatch_alerts import estimator, tallies
from groundwatch_collector.ledger import LedgerReport
from groundwatch_collector.storage import reader
from groundwatch_collector.tables import ledger, sampled_traces
from groundwatch_deploy.demo import truth
from groundwatch_deploy.demo.behaviour import BAD_VERSION, HEALTHY_VERSION, INJECTED_LAYER, Incident
from groundwatch_deploy.demo.traffic import SERVICE
from groundwatch_deploy.demo.truth import Truth
from groundwatch_scorer.judgement import Criterion

POLL_SECONDS = 0.5


class StoryError(Exception):
    """The story could not be told to its end."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens, and how fast."""

    incident: Incident = "rerank-cut"
    healthy_requests: int = 2_000
    bad_requests: int = 1_200
    per_second: float = 100.0
    seed: int = 7
    llm: bool = False  # let a model write the answers; needs OPENAI_BASE_URL or OPENAI_API_KEY
    patience_seconds: float = 300.0  # for the monitor to decide and judge what was sent


@dataclass(frozen=True, slots=True)
class Phase:
    """One deployed version: what really happened, and what was said of it."""

    version: str
    requests: int
    completed: int
    true_failures: int
    true_layers: Mapping[str, int]
    judged: int
    estimate: float | None  # None: nothing was judged
    low: float | None
    high: float | None
    raw_mean: float | None  # of judged traces, unweighted
    found_layers: Mapping[str, float]  # estimated failures by layer, the most frequent first

    @property
    def true_rate(self) -> float:
        return self.true_failures / self.completed

    @property
    def covered(self) -> bool:
        """Whether the interval holds the true rate."""
        return self.holds(self.true_rate)

    def holds(self, rate: float | None) -> bool:
        if rate is None or self.low is None or self.high is None:
            return False
        return self.low <= rate <= self.high

    @property
    def found_layer(self) -> str:
        return next(iter(self.found_layers), "")


@dataclass(frozen=True, slots=True)
class Story:
    plan: Plan
    healthy: Phase
    bad: Phase
    ledger: LedgerReport
    seconds: float

    @property
    def injected_layer(self) -> str:
        return INJECTED_LAYER[self.plan.incident]

    @property
    def came_true(self) -> bool:
        """Whether both estimates covered the truth, no raw mean did, the layer was named and all is accounted."""
        phases = (self.healthy, self.bad)
        honest = all(phase.covered and not phase.holds(phase.raw_mean) for phase in phases)
        accounted = self.ledger.adds_up and not self.ledger.lost and self.ledger.waiting == 0
        return honest and accounted and self.bad.found_layer == self.injected_layer


def run_story(
    endpoint: str,
    engine: Engine,
    *,
    ledger_report: Callable[[], LedgerReport],
    judge: str,
    folder: Path,
    plan: Plan,
    progress: Callable[[str], None],
) -> Story:
    """Tell the story to the monitor that listens at *endpoint* and keeps its tables in *engine*.

    *judge* is the identifier whose verdicts count; *folder* is for what the monitor must not see. Raises
    :class:`StoryError` when traffic cannot be served, is not judged in time, or *engine* holds demo traffic already.
    """
    begun = time.monotonic()
    if _decided(engine, None):
        raise StoryError(f"the database already holds traffic of {SERVICE}: the story needs an empty data directory")
    done: list[Phase] = []
    steps: tuple[tuple[str, Incident | None, int], ...] = (
        (HEALTHY_VERSION, None, plan.healthy_requests),
        (BAD_VERSION, plan.incident, plan.bad_requests),
    )
    for version, incident, requests in steps:
        progress(f"deploy {version}: {requests} requests at {plan.per_second:g} a second")
        record = folder / f"truth-{version}.jsonl"
        _serve_traffic(_command(endpoint, plan, incident, requests, record), progress)
        _wait_until_judged(engine, version, requests, plan.patience_seconds, progress)
        done.append(phase(engine, version, judge, truth.read(record)))
    return Story(plan, done[0], done[1], ledger_report(), round(time.monotonic() - begun, 1))


def phase(engine: Engine, version: str, judge: str, truths: Sequence[Truth]) -> Phase:
    """Set what was estimated for *version* beside what really happened."""
    failed, completed = truth.failure_rate(truths)
    sums = tallies.sums(engine, app=SERVICE, criterion=Criterion.ANY_FAILURE, judge=judge, version=version)
    found = estimator.estimate(sums)
    layers = tallies.fault_layers(engine, app=SERVICE, judge=judge, version=version)
    return Phase(
        version=version,
        requests=len(truths),
        completed=completed,
        true_failures=failed,
        true_layers=dict(Counter(t.layer for t in truths if t.completed and t.failed).most_common()),
        judged=found.judged if found else 0,
        estimate=found.rate if found else None,
        low=found.low if found else None,
        high=found.high_shown if found else None,
        raw_mean=found.raw_mean if found else None,
        found_layers={layer.layer: round(layer.weight, 1) for layer in layers},
    )


def _command(endpoint: str, plan: Plan, incident: Incident | None, requests: int, record: Path) -> list[str]:
    command = [sys.executable, "-m", "groundwatch_deploy.demo.traffic", "--endpoint", endpoint]
    command += ["--truth", str(record), "--requests", str(requests)]
    command += ["--per-second", str(plan.per_second), "--seed", str(plan.seed)]
    command += ["--incident", incident] if incident else []
    return [*command, "--llm"] if plan.llm else command


def _serve_traffic(command: Sequence[str], progress: Callable[[str], None]) -> None:
    """Run the application in a process of its own, as a customer's would be."""
    last = ""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stderr is not None  # asked for above
            for line in process.stderr:
                last = line.rstrip() or last
                progress(line.rstrip())
            code = process.wait()
        finally:
            process.kill()  # nothing to do but when the story is broken off
    if code != 0:
        raise StoryError(f"the application ended with exit code {code}: {last}")


def _wait_until_judged(
    engine: Engine, version: str, requests: int, patience_seconds: float, progress: Callable[[str], None]
) -> None:
    deadline = time.monotonic() + patience_seconds
    said = ""
    while True:
        decided, waiting = _decided(engine, version), _waiting(engine, version)
        if decided >= requests and waiting == 0:
            return
        if time.monotonic() > deadline:
            raise StoryError(
                f"{version}: after {patience_seconds:g} s {decided} of {requests} requests are decided and "
                f"{waiting} wait for the judge; is the monitor running?"
            )
        status = f"{version}: {decided} of {requests} decided, {waiting} waiting for the judge"
        if status != said:
            progress(status)
            said = status
        time.sleep(POLL_SECONDS)


def _decided(engine: Engine, version: str | None) -> int:
    query = select(func.count()).select_from(ledger).where(ledger.c.app == SERVICE)
    with reader(engine).connect() as connection:
        return int(
            connection.execute(query if version is None else query.where(ledger.c.version == version)).scalar_one()
        )


def _waiting(engine: Engine, version: str) -> int:
    table = sampled_traces
    query = select(func.count()).select_from(table).where(table.c.app == SERVICE, table.c.version == version)
    with reader(engine).connect() as connection:
        return int(connection.execute(query.where(table.c.state.in_(("waiting", "leased")))).scalar_one())


def as_json(story: Story) -> str:
    """The story as one line for machines."""
    return json.dumps(as_dict(story))


def as_dict(story: Story) -> dict[str, Any]:
    report = story.ledger
    return {
        "came_true": story.came_true,
        "incident": story.plan.incident,
        "injected_layer": story.injected_layer,
        "found_layer": story.bad.found_layer,
        "before": _phase_dict(story.healthy),
        "after": _phase_dict(story.bad),
        "ledger": {
            "received": report.received,
            "judged": report.judged,
            "unscored": report.unscored,
            "not_sampled": report.not_sampled,
            "skipped": dict(report.skipped),
            "waiting": report.waiting,
            "lost": sum(report.lost.values()),
            "doubled": report.doubled,
            "adds_up": report.adds_up,
        },
        "seed": story.plan.seed,
        "seconds": story.seconds,
    }


def _phase_dict(phase: Phase) -> dict[str, Any]:
    return {
        **asdict(phase),
        "true_rate": phase.true_rate,
        "covered": phase.covered,
        "raw_mean_inside": phase.holds(phase.raw_mean),
    }


def as_table(story: Story) -> str:
    """The story for people."""
    head = f"{'version':<9}{'requests':>9}{'judged':>8}{'really failed':>15}{'estimate (95 %)':>24}{'raw mean':>10}  "
    rows = [head.rstrip(), *(_row(phase) for phase in (story.healthy, story.bad))]
    return "\n".join([*rows, "", _layer_sentence(story), _ledger_sentence(story.ledger)])


def _row(phase: Phase) -> str:
    if phase.estimate is None or phase.low is None or phase.high is None or phase.raw_mean is None:
        return f"{phase.version:<9}{phase.requests:>9}{0:>8}{phase.true_rate:>15.1%}{'nothing was judged':>24}"
    interval = f"{phase.estimate:.1%} ({phase.low:.1%} - {phase.high:.1%})"
    says = "covers the truth" if phase.covered else "MISSES the truth"
    return (
        f"{phase.version:<9}{phase.requests:>9}{phase.judged:>8}{phase.true_rate:>15.1%}"
        f"{interval:>24}{phase.raw_mean:>10.1%}  {says}"
    )


def _layer_sentence(story: Story) -> str:
    found = story.bad.found_layers.items()
    listed = ", ".join(f"{layer} {weight:.0f}" for layer, weight in found) or "none"
    return (
        f"The fault was put into {story.injected_layer}; "
        f"failures in all traffic of {story.bad.version}, estimated by layer: {listed}."
    )


def _ledger_sentence(report: LedgerReport) -> str:
    skipped, lost = sum(report.skipped.values()), sum(report.lost.values())
    return (
        f"Ledger: {report.received} received = {report.judged} judged + {report.unscored} unscored + "
        f"{report.not_sampled} not sampled + {skipped} skipped + {report.waiting} waiting + {lost} lost"
        f" ({'adds up' if report.adds_up else 'DOES NOT ADD UP'})."
    )
