"""Verdicts as OpenTelemetry's ``gen_ai.evaluation.result`` events, to stand beside their spans elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from groundwatch import names
from groundwatch_collector.ragtrace import RagTrace
from groundwatch_scorer.judgement import Criterion

EVENT: Final = "gen_ai.evaluation.result"
NAME: Final = "gen_ai.evaluation.name"
SCORE: Final = "gen_ai.evaluation.score.value"
LABEL: Final = "gen_ai.evaluation.score.label"
EXPLANATION: Final = "gen_ai.evaluation.explanation"
ERROR: Final = "error.type"
ID: Final = "groundwatch.evaluation.id"  # the same judgement has the same id when it is sent again
ANNOTATOR_KIND: Final = "groundwatch.evaluation.annotator_kind"
JUDGE: Final = "groundwatch.evaluation.judge"
PROBABILITY: Final = "groundwatch.inclusion_probability"  # who averages the events has to divide by it


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One judgement and the trace that it is about."""

    id: int
    trace: RagTrace
    inclusion_probability: float
    criterion: str
    label: str  # pass | fail | not_applicable | unscored
    score: float | None
    explanation: str
    annotator_kind: str
    identifier: str
    judged_at: float


def request(evaluations: Sequence[Evaluation], *, explanations: bool) -> ExportLogsServiceRequest:
    """One OTLP request, with a resource for each app and version. *explanations* may quote what users wrote."""
    message = ExportLogsServiceRequest()
    ordered = sorted(evaluations, key=_resource_of)
    for (app, version), found in groupby(ordered, key=_resource_of):
        resource = message.resource_logs.add()
        identity = {names.SERVICE_NAME: app, names.SERVICE_VERSION: version}
        resource.resource.attributes.extend(_pairs({key: value for key, value in identity.items() if value}))
        scope = resource.scope_logs.add()
        scope.scope.name = names.SCOPE_NAME
        scope.log_records.extend(_record(evaluation, explanations) for evaluation in found)
    return message


def _resource_of(evaluation: Evaluation) -> tuple[str, str]:
    return evaluation.trace.app, evaluation.trace.version


def _record(evaluation: Evaluation, explanations: bool) -> LogRecord:
    nanos = round(evaluation.judged_at * 1e9)
    return LogRecord(
        time_unix_nano=nanos,
        observed_time_unix_nano=nanos,
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
        event_name=EVENT,
        trace_id=bytes.fromhex(evaluation.trace.trace_id),
        span_id=bytes.fromhex(judged_span(evaluation.trace)),
        attributes=_pairs(_attributes(evaluation, explanations)),
    )


def judged_span(trace: RagTrace) -> str:
    """The span whose output was judged: the answer-giving call, else the request itself; "" when neither is known."""
    answers = [stage.span_id for stage in trace.stages if stage.name == "answer"]
    if answers:
        return answers[-1]
    inside = {stage.span_id for stage in trace.stages}
    return next((stage.parent_id for stage in trace.stages if stage.parent_id not in inside), "")


def _attributes(evaluation: Evaluation, explanations: bool) -> dict[str, str | float | int]:
    score = _score(evaluation)
    found: dict[str, str | float | int] = {
        "event.name": EVENT,  # where receivers looked before records had a name
        NAME: evaluation.criterion,
        LABEL: evaluation.label,
        ID: evaluation.id,
        ANNOTATOR_KIND: evaluation.annotator_kind,
        PROBABILITY: evaluation.inclusion_probability,
    }
    if evaluation.annotator_kind != "HUMAN":  # a person's name is nobody's business outside
        found[JUDGE] = evaluation.identifier
    if evaluation.label == "unscored":
        found[ERROR] = "unscored"
    elif score is not None:
        found[SCORE] = score
    if explanations and evaluation.explanation:
        found[EXPLANATION] = evaluation.explanation
    return found


def _score(evaluation: Evaluation) -> float | None:
    """As the judge gave it; a person gives labels. 1 is good, but of ``any_failure`` it is that there is one."""
    if evaluation.score is not None or evaluation.label not in ("pass", "fail"):
        return evaluation.score
    return float((evaluation.label == "pass") != (evaluation.criterion == Criterion.ANY_FAILURE))


def _pairs(attributes: Mapping[str, str | float | int]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in attributes.items()]


def _value(value: Any) -> AnyValue:
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)
