"""What an application promises: ``[objectives.NAME]`` of groundwatch.toml, one for an app and a criterion."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groundwatch_scorer.judgement import Criterion

QUALITY = tuple(str(criterion) for criterion in Criterion)
EXECUTION = {"execution": ("error", "timeout"), "timeout": ("timeout",)}
"""Criteria of complete counts, and the outcomes that miss them."""
TRAFFIC = ("latency", "first_token", "cost")
CRITERIA = (*QUALITY, *EXECUTION, *TRAFFIC)
WINDOWS = {"1h": 1, "6h": 6, "12h": 12, "24h": 24}
"""Hours of each window that rules are rendered for."""
EVERY_APP = ""
LONGEST_SECONDS = 120.0
"""The last bucket of the histograms of duration: what is longer cannot be told from it."""
LARGEST_BURN = 14.4
"""How many times its share a budget may be used up before a person is woken; of Google's SRE workbook."""
KEEP_FIRING_HOURS = 3
"""An alert on quality that ends and begins again within so many hours is one alert to a person."""
_QUANTILE = 0.95
_ADDRESS = re.compile(r"""https?://[^\s"'<>{}?#\\]+""")  # a path is put behind it
_MOST_LEARNING_DAYS = 366
KEEP_BURNING_MINUTES = 15
"""The same of a burning budget: scrapes that are missed for so long, or a moment of calm, end no outage."""
_CROSSINGS, _PER_HOUR, _PER_JUDGED = 14.7, -0.73, 0.2  # fitted to bench_detection.py


@dataclass(frozen=True, slots=True)
class Objective:
    """One promise about an application. Rules, metrics and the preview are made from it."""

    name: str  # NAME in [objectives.NAME]; shown in alerts
    criterion: str  # what is promised
    objective: float  # failing share in (0, 1); seconds of latency and first_token; US dollars of cost
    app: str = EVERY_APP  # service.name; empty: every application without an objective of its own
    window: str = ""  # 1h, 6h, 12h or 24h; empty: 6h of judged criteria, 1h of latency, first_token and cost
    quantile: float = _QUANTILE  # of latency and first_token: this share of the requests keeps the objective
    false_alarms_per_week: float = 1.0  # of judged criteria: allowed while the truth lies exactly on the objective
    judge: str = ""  # of judged criteria: identifier of the judge; empty: the one that makes the headline

    def __post_init__(self) -> None:
        if self.criterion not in CRITERIA:
            raise ValueError(f"criterion: {self.criterion!r}; accepted: {', '.join(CRITERIA)}")
        if self.window and self.window not in WINDOWS:
            raise ValueError(f"window: {self.window!r}; accepted: {', '.join(WINDOWS)}")
        if not self.window and self.criterion not in EXECUTION:
            object.__setattr__(self, "window", "6h" if self.is_quality else "1h")
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile: {self.quantile}; accepted: above 0 and below 1")
        if not 0.01 <= self.false_alarms_per_week <= 20:  # beyond: never, or nearly all the time
            raise ValueError(f"false_alarms_per_week: {self.false_alarms_per_week}; accepted: 0.01 to 20")
        _check_name("app", self.app)
        _check_name("judge", self.judge)
        _check_name("the objective's name", self.name)
        if "{{" in self.name:  # it is a label of the alert, and Prometheus reads labels as templates
            raise ValueError(f"the objective's name: {self.name!r}; accepted: a name without {{{{")
        self._check_objective()
        self._refuse_what_says_nothing()

    def _refuse_what_says_nothing(self) -> None:
        """A key without effect would let somebody believe in an alert that there is not."""
        judged, timed = "judged criteria", ("latency", "first_token")
        without_effect = {
            "window": (
                self.criterion in EXECUTION and self.window,
                "other criteria; budgets burn over fixed windows",
            ),
            "quantile": (self.criterion not in timed and self.quantile != _QUANTILE, " and ".join(timed)),
            "false_alarms_per_week": (not self.is_quality and self.false_alarms_per_week != 1.0, judged),
            "judge": (not self.is_quality and self.judge, judged),
        }
        for key, (given, where) in without_effect.items():
            if given:
                raise ValueError(
                    f"{key}: {getattr(self, key)!r} says nothing of {self.criterion}; accepted for {where}"
                )

    def _check_objective(self) -> None:
        low, high, unit = self._accepted()
        if not (math.isfinite(self.objective) and low < self.objective < high):
            raise ValueError(
                f"objective: {self.objective} of {self.criterion}; accepted: {unit} above {low:g}"
                + (f" and below {high:g}" if math.isfinite(high) else "")
            )

    def _accepted(self) -> tuple[float, float, str]:
        if self.is_quality:
            return 0.0, 1.0, "a share of failed answers"
        if self.criterion in EXECUTION:  # beyond, 14.4 times the share is more than everything
            return 0.0, round(0.9 / LARGEST_BURN, 4), "a share of failed requests"
        if self.criterion == "cost":
            return 0.0, math.inf, "US dollars an answer"
        return 0.0, LONGEST_SECONDS, "seconds"

    @property
    def is_quality(self) -> bool:
        """Whether it is about judged answers: only these are estimated from a sample."""
        return self.criterion in QUALITY

    @property
    def hours(self) -> int:
        return WINDOWS[self.window]

    def z(self, judged: float) -> float:
        """Score above which the alert fires, with so many *judged* in its window: see :func:`alarm_z`."""
        return alarm_z(self.hours, self.false_alarms_per_week, judged)


def _check_name(what: str, name: str) -> None:
    """It is written into queries."""
    if '"' in name or "\\" in name or not name.isprintable():
        raise ValueError(
            f"{what}: {name!r}; accepted: a name without quotes, backslashes, line breaks and invisible signs"
        )


def alarm_z(hours: float, false_alarms_per_week: float, judged: float) -> float:
    """Score that a mean over *hours* and *judged* traces crosses upwards so often a week by chance alone.

    The rate at which a stationary Gaussian mean crosses z falls with exp(-z^2 / 2) (Rice). The factor before it is
    measured on the product's own estimator (``bench_detection.py``): longer windows cross less often, and a mean of
    more verdicts has a rougher path.
    """
    return math.sqrt(2 * max(0.5, math.log(_crossings(hours) * judged**_PER_JUDGED / false_alarms_per_week)))


def alarm_z_promql(hours: float, false_alarms_per_week: float, judged: str) -> str:
    """The same in PromQL, where *judged* is a series."""
    factor = f"{_crossings(hours) / false_alarms_per_week:.6g}"
    return f"sqrt(2 * clamp_min(ln({factor} * {judged} ^ {_PER_JUDGED}), 0.5))"


def _crossings(hours: float) -> float:
    return float(_CROSSINGS * hours**_PER_HOUR)


def check(objectives: Sequence[Objective]) -> None:
    """Raise ``ValueError`` where two objectives promise the same thing twice."""
    seen: dict[tuple[str, ...], str] = {}
    for item in objectives:
        key = (item.app, item.criterion, item.judge, str(item.quantile) if item.criterion in TRAFFIC else "")
        if key in seen:
            raise ValueError(
                f"{item.name} and {seen[key]} are both about {item.criterion} of {item.app or 'every app'}; "
                "accepted: one objective for an app and a criterion"
            )
        seen[key] = item.name
    _check_scores([item for item in objectives if item.is_quality])


def _check_scores(quality: Sequence[Objective]) -> None:
    """One that names no judge is about every judge's series; in the same window both would write the same score."""
    of_every_judge = {(item.app, item.criterion, item.window): item.name for item in quality if not item.judge}
    for item in quality:
        other = of_every_judge.get((item.app, item.criterion, item.window)) if item.judge else None
        if other is not None:
            raise ValueError(
                f"{item.name} names the judge {item.judge} and {other} names none, both about {item.criterion} "
                f"of {item.app or 'every app'} over {item.window}; accepted: a window of its own, or a judge for both"
            )


def covering(objectives: Iterable[Objective], app: str) -> list[Objective]:
    """The objectives that hold for *app*: its own, and those of every app that it does not replace."""
    chosen = [item for item in objectives if item.app in (app, EVERY_APP)]
    own = {item.criterion for item in chosen if item.app == app and app != EVERY_APP}
    return [item for item in chosen if item.app == app or item.criterion not in own]


@dataclass(frozen=True, slots=True)
class AlertsConfig:
    """How alerts are written, and how changes of quality are found."""

    console_url: str = "http://127.0.0.1:4390"  # where the links of an alert lead: the console
    dashboard_url: str = ""  # where Grafana shows the dashboards; empty: alerts link to none
    runbook_url: str = ""  # folder of the runbooks, as your people reach it; empty: alerts name the file only
    learning_days: float = 14.0  # baseline to be seen before an absolute objective may page; until then: a ticket
    min_judged: int = 60  # with fewer judged traces in its window an alert on quality says that it is blind
    min_requests: int = 100  # with fewer requests in its window an alert on traffic stays silent

    def __post_init__(self) -> None:
        for name in ("console_url", "dashboard_url", "runbook_url"):
            url = getattr(self, name)
            if url and not _ADDRESS.fullmatch(url):
                raise ValueError(
                    f"{name}: {url!r}; accepted: an address that begins with http:// or https://, "
                    "without spaces, quotes, braces, ? and #"
                )
        if not 1 <= self.learning_days <= _MOST_LEARNING_DAYS:
            raise ValueError(f"learning_days: {self.learning_days}; accepted: 1 to {_MOST_LEARNING_DAYS}")
        for name, least in (("min_judged", 10), ("min_requests", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: {getattr(self, name)}; accepted: {least} or more")
