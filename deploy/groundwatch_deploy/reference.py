"""The reference pages, written from the code: `python -m groundwatch_deploy.reference docs` writes them anew.

A test compares the committed pages with what this module renders, so a setting or a metric cannot go undocumented.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import sys
import tempfile
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from sqlalchemy import Engine

from groundwatch_alerts.agreement_metrics import AgreementCollector
from groundwatch_alerts.change_monitor import ChangeMetrics
from groundwatch_alerts.corrected_metrics import CorrectedCollector
from groundwatch_alerts.estimate_metrics import TallyCollector
from groundwatch_alerts.objectives import Objective
from groundwatch_alerts.version_metrics import VersionCollector
from groundwatch_collector.intake_metrics import IntakeMetrics
from groundwatch_collector.kafka_metrics import KafkaMetrics
from groundwatch_collector.spanlog import SpanLog
from groundwatch_collector.storage import metadata, open_engine
from groundwatch_collector.traffic_metrics import TrafficMetrics
from groundwatch_deploy.retention import RetentionMetrics
from groundwatch_deploy.settings import NAMED, SECTIONS
from groundwatch_review.console.login import LoginMetrics
from groundwatch_review.label_agreement_metrics import LabelAgreementCollector
from groundwatch_review.outbox_metrics import OutboxCollector
from groundwatch_scorer.scorer_metrics import ScorerMetrics, SettleMetrics

CONFIGURATION_HEAD = """# Configuration

One TOML file, given with `--config groundwatch.toml`, checked whole before anything starts: an unknown key is refused
with the nearest known name, a value of the wrong type with what was expected. Everything has a default; an empty file
is a good configuration. `groundwatch serve --check --config groundwatch.toml` checks and stops.

Secrets are never in the file. They are made at the first start and kept in the data directory, readable by their
owner only, or come from the environment:

| variable | what |
|---|---|
| `GROUNDWATCH_SAMPLING_SALT` | key of the sampling hash, 32 to 128 hex digits; replicas must share it |
| `GROUNDWATCH_CANDIDATE_KEY` | key of the HMAC that links a candidate to its trace, 32 to 128 hex digits |
| `GROUNDWATCH_KAFKA_PASSWORD` | of `[kafka] sasl_username` |
| `GROUNDWATCH_KAFKA_SSL_KEY_PASSWORD` | of `[kafka] ssl_keyfile`, when it is encrypted |
| `GROUNDWATCH_FEEDBACK_KEY` | what the SDK signs [feedback](feedback.md) tokens with; empty: none is asked for |
| `GROUNDWATCH_LLM_API_KEY` (or `OPENAI_API_KEY`) | key of the model that judges, when `[judge] llm_model` is set |
| `GROUNDWATCH_OIDC_CLIENT_SECRET` | of `[oidc] client_id`; empty: this console has none at the provider |

The SDK is configured in the application: see [sdk](sdk.md).

This page is written from the code (`python -m groundwatch_deploy.reference docs`).
"""

METRICS_HEAD = """# Metrics

Served in the Prometheus text format at `http://127.0.0.1:4391/metrics`. `rag_*` speaks of the watched application,
`groundwatch_*` of the monitor itself. Counts and timestamps are exported, never ratios or ages: Prometheus divides.
`rag_corrected_*` is the exception: an estimate of two phases cannot be put together from counters.
Label values come from closed or capped sets; what does not fit is counted under `__other__` and in
`groundwatch_label_overflow_total` or `groundwatch_tally_label_overflow_total`. No label ever holds text of a user, a
question or a trace id.

The sums that estimates are made of (`rag_traces_total` and `rag_judged_*`) are the committed sums of the database:
after a restart they continue exactly. Everything else starts at 0 with the process. [Estimate](concepts/estimate.md)
says how they become a rate with an interval.

This page is written from the code (`python -m groundwatch_deploy.reference docs`).

| metric | type | labels | meaning |
|---|---|---|---|
"""


def configuration() -> str:
    """The configuration page: one table a section, from the fields and the comments beside them."""
    parts = [CONFIGURATION_HEAD]
    for section, kind in {**SECTIONS, f"{NAMED}.NAME": Objective}.items():
        about = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")
        parts.append(f"\n## `[{section}]`\n\n{about}\n\n| key | type | default | meaning |\n|---|---|---|---|\n")
        parts += [_row(name, kind_, default, text) for name, kind_, default, text in _settings(kind)]
    return "".join(parts)


def _row(*cells: str) -> str:
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| `{escaped[0]}` | {escaped[1]} | `{escaped[2]}` | {escaped[3]} |\n"


def _settings(kind: type[Any]) -> Iterator[tuple[str, str, str, str]]:
    comments = field_comments(kind)
    for item in dataclasses.fields(kind):
        if kind is Objective and item.name == "name":
            continue  # it is the NAME of the section
        yield item.name, str(item.type), _default(item), comments[item.name]


def _default(item: dataclasses.Field[Any]) -> str:
    if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
        return "(required)"
    value: Any = item.default_factory() if item.default_factory is not dataclasses.MISSING else item.default
    if isinstance(value, Path):
        return repr(str(value))
    return repr(dict(value)) if hasattr(value, "items") else repr(value)


def field_comments(kind: type[Any]) -> dict[str, str]:
    """The comment behind (or right above) each field of a dataclass. Raises ``LookupError`` where one has none."""
    source = inspect.getsource(kind)
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT]
    comments = {token.start[0]: token.string.lstrip("# ").strip() for token in tokens}
    alone = {token.start[0] for token in tokens if token.line.lstrip().startswith("#")}
    (body,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    found = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = [*range(node.lineno, (node.end_lineno or node.lineno) + 1)]
            beside = [comments[line] for line in lines if line in comments]
            found[node.target.id] = " ".join(beside) or " ".join(_above(comments, alone, node.lineno))
    missing = [item.name for item in dataclasses.fields(kind) if not found.get(item.name)]
    if missing:
        raise LookupError(f"{kind.__name__}: no comment says what {', '.join(missing)} means")
    return found


def _above(comments: dict[int, str], alone: set[int], line: int) -> list[str]:
    start = line
    while start - 1 in alone:
        start -= 1
    return [comments[number] for number in range(start, line)]


def every_metric() -> list[tuple[Metric, list[str]]]:
    """Each metric family of the one-process monitor with its label names, from a registry of its own."""
    engine = open_engine("sqlite://")
    metadata.create_all(engine)
    with tempfile.TemporaryDirectory() as folder, SpanLog(Path(folder)) as log:
        registry = _registry(engine, log)
        families = sorted(registry.collect(), key=lambda family: family.name)
        found = [(family, _labels(registry, family)) for family in families]
    engine.dispose()
    return found


def _registry(engine: Engine, log: SpanLog) -> CollectorRegistry:
    registry = CollectorRegistry()
    IntakeMetrics(registry).watch(log)
    KafkaMetrics(registry)
    TrafficMetrics(registry)
    ScorerMetrics(registry)
    SettleMetrics(registry)
    RetentionMetrics(registry)
    LoginMetrics(registry)
    ChangeMetrics(registry)
    registry.register(TallyCollector(engine))
    registry.register(TallyCollector(engine, family="settled"))
    registry.register(VersionCollector(engine, ""))
    registry.register(CorrectedCollector(engine, [""], now=lambda: 0.0))
    registry.register(AgreementCollector(engine, [""], now=lambda: 0.0))
    registry.register(LabelAgreementCollector(engine))
    registry.register(OutboxCollector(engine))
    return registry


def exposed_name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def metrics(families: Iterable[tuple[Metric, list[str]]]) -> str:
    """The metrics page."""
    return METRICS_HEAD + "".join(_metric_row(family, labels) for family, labels in families)


def _metric_row(family: Metric, names: list[str]) -> str:
    labels = ", ".join(f"`{name}`" for name in names) or "-"
    meaning = family.documentation.rstrip(".").replace("|", "\\|")
    return f"| `{exposed_name(family)}` | {family.type} | {labels} | {meaning} |\n"


def _labels(registry: CollectorRegistry, family: Metric) -> list[str]:
    # A metric without children yet has no samples to read labels from; the library keeps the names privately.
    owner = registry._names_to_collectors.get(family.name)
    declared = getattr(family, "_labelnames", None) or getattr(owner, "_labelnames", None) or ()
    names = set(declared) | {name for sample in family.samples for name in sample.labels}
    return sorted(names - {"le", "quantile"})


def write(folder: Path) -> None:
    (folder / "configuration.md").write_text(configuration(), encoding="utf-8")
    (folder / "metrics.md").write_text(metrics(every_metric()), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
