"""Measure a judge against labelled cases: how often it is right, on what, and how sure that is."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groundwatch_collector.ragtrace import Document, Outcome, RagTrace

from . import calibration_report, local_judge
from .calibration_metrics import (
    auroc,
    balanced_accuracy,
    binary,
    fit_logistic,
    interval,
    kappa,
    reliability,
    share_true,
)
from .calibration_probes import stability
from .failures import claim_fails
from .judgement import Answerability, Assessment, Judge, Refusal, Verdict
from .measures import refusal_confusion
from .text import is_cjk, sentences, tokens

UNFAITHFUL_FROM = 0.5  # of the worst claim, for the balanced figures; alerts use failures.FAIL_FROM
_TEMPLATED_REFUSALS = frozenset({"rgb_zh"})  # fixed sentences, in every half of that data: no measure of refusal
_FEWEST_ROWS = 8  # of a source, for figures of its own
_LENGTHS = (  # characters of the answer
    ("under 100 characters", 0, 100),
    ("100 to 299 characters", 100, 300),
    ("300 characters and more", 300, 10**9),
)
_EN_ZH = ("en", "zh")

Row = Mapping[str, Any]
Progress = Callable[[int, int], None]


class BadData(ValueError):
    """The labelled file cannot be read; the message says where and what was expected."""


def read_rows(path: Path) -> list[Row]:
    """Read labelled cases, one JSON object a line, gzip or plain. Raises :class:`BadData`."""
    rows: list[Row] = []
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")
    except (OSError, UnicodeDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise BadData(f"{path}: cannot be read as (gzipped) UTF-8 text: {error}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            rows.append(_row(path, number, line))
    if not rows:
        raise BadData(f"{path}: no labelled cases in it; expected one JSON object a line")
    return rows


def _row(path: Path, number: int, line: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadData(f"{path}, line {number}: not JSON ({error})") from error
    if not isinstance(row, dict) or not isinstance(row.get("contexts"), list) or "answer" not in row:
        raise BadData(f'{path}, line {number}: expected an object with "contexts" (a list) and "answer"')
    if not all(isinstance(text, str) for text in row["contexts"]):
        raise BadData(f'{path}, line {number}: "contexts" must be a list of texts')
    return row


def trace_of(row: Row) -> RagTrace:
    """The labelled case as a trace. Labels do not go in."""
    return RagTrace(
        trace_id=str(row.get("id", "")),
        app="calibration",
        version="",
        started_at=0.0,
        duration_seconds=0.0,
        outcome=Outcome(row.get("outcome") or Outcome.ANSWERED),
        outcome_source="recorded",
        query=row.get("question"),
        context=tuple(Document(f"c{i}", i, text=text) for i, text in enumerate(row["contexts"], start=1)),
        answer=row["answer"],
    )


@dataclass
class _Case:
    """What one row contributes: (truth, said or score) per criterion it has a label for."""

    row: Row
    reading: Assessment
    worst: float | None = field(init=False)  # probability of the worst claim; None: no claim

    def __post_init__(self) -> None:
        self.worst = max((c.unsupported_probability for c in self.reading.claims), default=None)

    @property
    def family(self) -> str:
        return str(self.row.get("family") or self.row.get("id", ""))

    @property
    def source(self) -> str:
        return str(self.row.get("source", ""))

    @property
    def unfaithful(self) -> bool:
        return bool(self.row["faithful"] == 0)


def evaluate(rows: Sequence[Row], judge: Judge, progress: Progress | None = None) -> dict[str, Any]:
    """The calibration report of *judge* on *rows*. Figures that the labels do not allow are None."""
    cases: list[_Case] = []
    for number, row in enumerate(rows, start=1):
        cases.append(_Case(row, judge.assess(trace_of(row))))
        if progress is not None:
            progress(number, len(rows))
    latencies = sorted(case.reading.latency_seconds for case in cases)
    return {
        "judge": judge.identifier,
        "rows": len(rows),
        "sources": dict(sorted(Counter(case.source for case in cases).items())),
        "unscored": dict(Counter(c.reading.unscored_reason for c in cases if c.reading.unscored_reason)),
        "faithfulness": _faithfulness(cases),
        "claims": _claims(cases),
        "refusal": _refusal(cases),
        "answerability": _answerability(cases),
        "refusal_confusion": _refusal_confusion(cases),
        "context_relevance": _context_relevance(cases),
        "answer_relevance": _answer_relevance(cases),
        "copies": _copies(rows, judge),
        "latency_ms": {
            "p50": 1000 * latencies[len(latencies) // 2],
            "p95": 1000 * latencies[len(latencies) * 95 // 100],
        },
    }


def _faithfulness(cases: Iterable[_Case]) -> dict[str, Any]:
    labelled = [c for c in cases if c.row.get("faithful") is not None]
    known = [c for c in labelled if c.worst is not None]
    report = _faithfulness_of(known)
    report["no_claims_found"] = len(labelled) - len(known)
    report["by_language"] = {
        x: _faithfulness_of(p) for x in _EN_ZH if (p := [c for c in known if c.row["lang"] == x])
    }
    by_source = {
        source: _faithfulness_of(members)
        for source, members in sorted(_grouped(known).items())
        if len(members) >= _FEWEST_ROWS
    }
    report["by_source"] = by_source
    report["by_length"] = {
        name: _faithfulness_of(part)
        for name, least, below in _LENGTHS
        if (part := [c for c in known if least <= len(c.row["answer"]) < below])
    }
    report["verdicts"] = {
        "all": _verdicts(known),
        **{x: _verdicts([c for c in known if c.row["lang"] == x]) for x in report["by_language"]},
    }
    macro = [r["balanced_accuracy"] for r in by_source.values() if r["balanced_accuracy"] is not None]
    report["macro_balanced_accuracy"] = sum(macro) / len(macro) if macro else None
    report["reliability"] = reliability([(c.unfaithful, c.worst or 0.0) for c in known], [c.family for c in known])
    report["at_failure_threshold"] = binary([(c.unfaithful, _fails(c)) for c in known])
    report["abstention"] = _abstention(known)
    return report


def _fails(case: _Case) -> bool:
    return any(claim_fails(claim) for claim in case.reading.claims)


def _faithfulness_of(cases: Sequence[_Case]) -> dict[str, Any]:
    scored = [(c.unfaithful, c.worst or 0.0) for c in cases]
    families = [c.family for c in cases]
    return {
        **binary([(truth, score >= UNFAITHFUL_FROM) for truth, score in scored]),
        "auroc": auroc(scored),
        "balanced_accuracy_95": interval([(t, s >= UNFAITHFUL_FROM) for t, s in scored], families, balanced_accuracy),
        "auroc_95": interval(scored, families, auroc),
        "kappa_95": interval([(t, s >= UNFAITHFUL_FROM) for t, s in scored], families, kappa),
    }


def _verdicts(cases: Sequence[_Case]) -> dict[str, Any]:
    """How often each verdict of a worst claim is right of the whole answer, which is all that most labels say."""
    right: dict[str, list[tuple[bool, str]]] = defaultdict(list)
    for case in cases:
        verdict = max(case.reading.claims, key=lambda claim: claim.unsupported_probability).verdict
        if verdict is not Verdict.UNCERTAIN:
            right[verdict.value].append((case.unfaithful != (verdict is Verdict.SUPPORTED), case.family))
    return {
        verdict: {
            "n": len(members),
            "precision": share_true([truth for truth, _family in members]),
            "precision_95": interval([t for t, _family in members], [f for _truth, f in members], share_true),
        }
        for verdict, members in sorted(right.items())
    }


def _abstention(cases: Sequence[_Case]) -> dict[str, Any]:
    """How far to trust the judge where it decides. A case is decided when its worst claim is."""
    decided = [
        (c.unfaithful, worst.verdict is not Verdict.SUPPORTED)
        for c in cases
        if (worst := max(c.reading.claims, key=lambda claim: claim.unsupported_probability)).verdict
        is not Verdict.UNCERTAIN
    ]
    right = sum(truth == said for truth, said in decided)
    supported = [not truth for truth, said in decided if not said]
    return {
        "decided": len(decided),
        "coverage": len(decided) / len(cases) if cases else None,
        "accuracy": right / len(decided) if decided else None,
        "supported_precision": sum(supported) / len(supported) if supported else None,
        "supported": len(supported),
    }


def _claims(cases: Iterable[_Case]) -> dict[str, Any]:
    """Verdicts against claim labels, for rows whose one label is of the whole answer."""
    confusion: dict[str, Counter[str]] = defaultdict(Counter)
    for case in cases:
        labels = [claim["label"] for claim in case.row.get("claims") or ()]
        if len(labels) == 1 and len(case.reading.claims) == 1:
            confusion[labels[0]][case.reading.claims[0].verdict.value] += 1
    conflicts = sum(counts[Verdict.CONTRADICTED.value] for counts in confusion.values())
    right = confusion["contradicted"][Verdict.CONTRADICTED.value] if conflicts else 0
    return {
        "confusion": {label: dict(sorted(counts.items())) for label, counts in sorted(confusion.items()) if counts},
        "contradicted_verdicts": conflicts,
        "contradicted_precision": right / conflicts if conflicts else None,
    }


def _copies(rows: Sequence[Row], judge: Judge) -> dict[str, Any]:
    """Sentences of the contexts given as answers, as they stand and with one number made up: the plainest cases."""
    counts: Counter[str] = Counter()
    for row in rows:
        copied = _sentence_with_number(row)
        if copied is None:
            continue
        for name, answer in zip(("copied", "altered"), copied, strict=True):
            verdicts = {claim.verdict for claim in judge.assess(trace_of({**row, "answer": answer})).claims}
            counts[name] += bool(verdicts)
            counts[f"{name}_supported"] += verdicts == {Verdict.SUPPORTED}
            counts[f"{name}_contradicted"] += Verdict.CONTRADICTED in verdicts
    return dict(sorted(counts.items()))


def _sentence_with_number(row: Row) -> tuple[str, str] | None:
    """The first sentence of the contexts that has a whole number, and the same with a number that stands nowhere."""
    for text in row["contexts"]:
        for span in sentences(text):
            sentence = text[span.start : span.end]
            number = _WHOLE_NUMBER.search(sentence)
            if number and span.kind == "sentence" and 30 <= len(sentence) <= 300:
                invented = int(number.group()) * 3 + 11
                if all(str(invented) not in other for other in row["contexts"]):
                    return sentence, f"{sentence[: number.start()]}{invented}{sentence[number.end() :]}"
    return None


_WHOLE_NUMBER = re.compile(r"(?<![\w.,:/#\-\[(])[1-9]\d{0,3}(?![\w:/\])-]|[.,]\d)")


def _refusal(cases: Iterable[_Case]) -> dict[str, Any]:
    labelled = [c for c in cases if c.row.get("refusal") and c.row["answer"] and c.source not in _TEMPLATED_REFUSALS]
    report = _refusal_of(labelled)
    report["by_language"] = {x: _refusal_of(p) for x in _EN_ZH if (p := [c for c in labelled if c.row["lang"] == x])}
    report["by_source"] = {s: _refusal_of(m) for s, m in sorted(_grouped(labelled).items()) if len(m) >= _FEWEST_ROWS}
    report["confusion"] = {
        f"{truth} read as {said}": n
        for (truth, said), n in sorted(Counter((c.row["refusal"], c.reading.refusal.value) for c in labelled).items())
    }
    return report


def _refusal_of(cases: Sequence[_Case]) -> dict[str, Any]:
    clear = [c for c in cases if c.row["refusal"] != "partial"]
    pairs = [(c.row["refusal"] == "full", c.reading.refusal.value == "full") for c in clear]
    return {
        "full_against_none": {
            **binary(pairs),
            "balanced_accuracy_95": interval(pairs, [c.family for c in clear], balanced_accuracy),
        },
        "f1_by_label": _f1_by_label([(c.row["refusal"], c.reading.refusal.value) for c in cases]),
        "any_against_none": binary([(c.row["refusal"] != "none", c.reading.refusal.value != "none") for c in cases]),
    }


def _f1_by_label(pairs: Sequence[tuple[str, str]]) -> dict[str, float | None]:
    """F1 of every label in turn against all others; None where it neither occurs nor is said."""
    return {
        label: binary([(truth == label, said == label) for truth, said in pairs])["f1"]
        for label in sorted({label for pair in pairs for label in pair})
    }


def _answerability(cases: Sequence[_Case]) -> dict[str, Any]:
    read = [c for c in cases if c.row.get("answerable") and c.row["contexts"] and c.reading.answerability]
    three = [(str(c.row["answerable"]), str(c.reading.answerability)) for c in read]
    labelled = [c for c in read if c.row["answerable"] in ("FULL", "NONE")]
    pairs = [(c.row["answerable"] == "FULL", c.reading.answerability == "FULL") for c in labelled]
    best = [
        (c.row["answerable"] == "FULL", max((r or 0.0 for r in c.reading.context_relevance), default=0.0))
        for c in labelled
    ]
    return {
        "full_against_none": binary(pairs),
        "f1_by_label": _f1_by_label(three),
        "f1_by_label_and_language": {
            x: _f1_by_label([p for p, c in zip(three, read, strict=True) if c.row["lang"] == x]) for x in _EN_ZH
        },
        "auroc": auroc(best),
        "balanced_accuracy_95": interval(pairs, [c.family for c in labelled], balanced_accuracy),
        "by_source": {
            source: auroc([best[i] for i, c in enumerate(labelled) if c.source == source])
            for source in sorted({c.source for c in labelled})
        },
    }


def _refusal_confusion(cases: Iterable[_Case]) -> dict[str, Any]:
    """What texts do on questions that are labelled answerable or not: as read, and by the labels alone."""
    known = [c for c in cases if c.row.get("answerable") and c.row["contexts"] and c.row["answer"]]
    labelled = [c for c in known if c.row.get("refusal")]
    truth = [(_outcome(c), Refusal(c.row["refusal"]), Answerability(c.row["answerable"])) for c in labelled]
    return {
        "as_read": refusal_confusion(
            (_outcome(c), c.reading.refusal, Answerability(c.row["answerable"])) for c in known
        ),
        "by_label": refusal_confusion(truth),
    }


def _outcome(case: _Case) -> Outcome:
    return Outcome(case.row.get("outcome") or Outcome.UNKNOWN)


def _context_relevance(cases: Iterable[_Case]) -> dict[str, Any]:
    scored: dict[str, list[tuple[bool, float]]] = defaultdict(list)
    for case in cases:
        labels = case.row.get("context_relevance") or ()
        for label, relevance in zip(labels, case.reading.context_relevance, strict=False):
            if label is not None and relevance is not None:
                scored[case.source].append((bool(label), relevance))
    by_source = {source: auroc(pairs) for source, pairs in sorted(scored.items())}
    return {"n": sum(map(len, scored.values())), "auroc_by_source": by_source}


def _answer_relevance(cases: Iterable[_Case]) -> dict[str, Any]:
    scored = [
        (bool(c.row["answer_relevant"]), c.reading.answer_relevance)
        for c in cases
        if c.row.get("answer_relevant") is not None and c.reading.answer_relevance is not None
    ]
    return {"n": len(scored), "irrelevant": sum(not t for t, _s in scored), "auroc": auroc(scored)}


def _grouped(cases: Iterable[_Case]) -> dict[str, list[_Case]]:
    groups: dict[str, list[_Case]] = defaultdict(list)
    for case in cases:
        groups[case.source].append(case)
    return groups


# --- the fit of the shipped numbers -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Point:
    score: float  # of the worst claim that is no copy
    unfaithful: bool
    source: str
    may_train: bool


def _points(rows: Iterable[Row]) -> list[_Point]:
    return [
        _Point(max(found), row["faithful"] == 0, str(row.get("source", "")), bool(row.get("permissive")))
        for row in rows
        if row.get("faithful") is not None and (found := local_judge.scores(trace_of(row)))
    ]


def fit(rows: Iterable[Row]) -> tuple[float, float]:
    """Fit score to probability on the rows that may be trained on: (intercept, slope).

    Every source weighs the same, and so do faithful and unfaithful, so that the probability is one at even odds.
    """
    return _fit_points([point for point in _points(rows) if point.may_train])


def _fit_points(points: Sequence[_Point]) -> tuple[float, float]:
    sources = Counter(point.source for point in points)
    bad_share = sum(point.unfaithful for point in points) / len(points)
    weights = [
        (1 / bad_share if point.unfaithful else 1 / (1 - bad_share)) / sources[point.source] for point in points
    ]
    return fit_logistic([p.score for p in points], [p.unfaithful for p in points], weights)


def leave_one_source_out(rows: Iterable[Row]) -> dict[str, Any]:
    """The binary figures when each source is judged with numbers that were fitted without it. Copies are left out."""
    points = _points(rows)
    pairs: list[tuple[bool, bool]] = []
    for source in sorted({point.source for point in points}):
        intercept, slope = _fit_points([p for p in points if p.may_train and p.source != source])
        pairs.extend(
            (p.unfaithful, intercept + slope * p.score >= 0)  # probability of one half
            for p in points
            if p.source == source
        )
    return binary(pairs)


def background_counts(rows: Iterable[Row]) -> dict[str, Any]:
    """The shipped table of how common a word is, counted over the contexts that may be used for it."""
    contexts = {(text, str(row["lang"])) for row in rows if row.get("permissive") for text in row["contexts"]}
    table: dict[str, Any] = {"about": _BACKGROUND_ABOUT}
    for language in _EN_ZH:
        counts: Counter[str] = Counter()
        total = 0
        for text, spoken in contexts:
            if spoken == language:
                found = sentences(text)
                total += len(found)
                for span in found:
                    counts.update(set(tokens(text[span.start : span.end])))
        table[language] = {"sentences": total, "tokens": _by_count(counts, language == "zh")}
    return table


def _by_count(counts: Mapping[str, int], chinese: bool) -> dict[str, str]:
    groups: dict[int, list[str]] = defaultdict(list)
    for token, count in counts.items():
        if count >= _FEWEST_SENTENCES and is_cjk(token) == chinese and len(token) <= _LONGEST_TOKEN:
            groups[count].append(token)
    return {str(count): " ".join(sorted(groups[count])) for count in sorted(groups)}


_FEWEST_SENTENCES = 4
_LONGEST_TOKEN = 16  # characters
_BACKGROUND_ABOUT = (
    "In how many sentences a word stem (en) or a pair of characters (zh) occurs, where it does in at least 4, over "
    "the contexts of the permissively licensed rows of the development data. Counts only, no text. Made by "
    "groundwatch_scorer.calibration.background_counts."
)


# --- the command --------------------------------------------------------------------------------------------------


def run(
    path: Path,
    as_json: bool,
    judge: Judge | None = None,
    progress: Progress | None = None,
    page: Path | None = None,
) -> str:
    """Measure *judge* (default: the local one) on the labelled file; the report as one JSON line or as text.

    With *page* the report is also written there, and some cases are read again for it, which a model is paid for.
    """
    rows = read_rows(path)
    reader = judge or local_judge.LocalJudge()
    report = evaluate(rows, reader, progress)
    report["data_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    if judge is None:
        report["leave_one_source_out"] = leave_one_source_out(rows) if _can_be_refitted(rows) else None
    if page is not None:
        labelled = [row for row in rows if row.get("faithful") is not None]
        report["stability"] = stability([trace_of(row) for row in labelled], reader)
        calibration_report.write(report, page)
    return json.dumps(report, ensure_ascii=False) if as_json else as_text(report)


def _can_be_refitted(rows: Sequence[Row]) -> bool:
    usable = [r for r in rows if r.get("permissive") and r.get("faithful") is not None]
    return len({r.get("source") for r in usable}) >= 3 and len({r["faithful"] for r in usable}) == 2


def as_text(report: Mapping[str, Any]) -> str:
    """The report for people: every figure with its count, its interval and its base rate."""
    faithful, refusal = report["faithfulness"], report["refusal"]["full_against_none"]
    lines = [
        f"judge {report['judge']} on {report['rows']} rows of {len(report['sources'])} sources",
        "",
        "faithfulness (True = unfaithful, worst claim, cut at 0.5)",
        _faithfulness_line("all", faithful),
        *(_faithfulness_line(name, part) for name, part in faithful["by_language"].items()),
        *(_faithfulness_line(name, part) for name, part in faithful["by_source"].items()),
        f"  macro over sources: balanced accuracy {_number(faithful['macro_balanced_accuracy'])}",
        _threshold_line(faithful["at_failure_threshold"]),
        _abstention_line(faithful["abstention"]),
        f"  expected calibration error {_number(faithful['reliability']['expected_calibration_error'])}",
        _contradiction_line(report["claims"]),
        f"  sentences copied from the contexts, and copied with one number made up: {_counts(report['copies'])}",
        *_left_out_lines(report),
        "",
        "refusal (full against none)",
        f"  n {refusal['n']}, balanced accuracy {_number(refusal['balanced_accuracy'])} "
        f"{_range(refusal['balanced_accuracy_95'])}, kappa {_number(refusal['kappa'])}",
        *(
            f"  {name:<16} n {part['full_against_none']['n']}, balanced accuracy "
            f"{_number(part['full_against_none']['balanced_accuracy'])}"
            for name, part in report["refusal"]["by_source"].items()
        ),
        "",
        "experimental, by shared words only",
        f"  answerability full against none: n {report['answerability']['full_against_none']['n']}, "
        f"balanced accuracy {_number(report['answerability']['full_against_none']['balanced_accuracy'])}, "
        f"AUROC {_number(report['answerability']['auroc'])}",
        f"  context relevance AUROC by source: {_named(report['context_relevance']['auroc_by_source'])}",
        f"  answer relevance: n {report['answer_relevance']['n']}, "
        f"AUROC {_number(report['answer_relevance']['auroc'])}",
        "",
        calibration_report.sentence(report),
        f"latency ms: p50 {report['latency_ms']['p50']:.1f}, p95 {report['latency_ms']['p95']:.1f}",
    ]
    return "\n".join(lines)


def _faithfulness_line(name: str, part: Mapping[str, Any]) -> str:
    return (
        f"  {name:<16} n {part['n']:>4}, base rate {_number(part['base_rate'])}, balanced accuracy "
        f"{_number(part['balanced_accuracy'])} {_range(part['balanced_accuracy_95'])}, "
        f"AUROC {_number(part['auroc'])} "
        f"{_range(part['auroc_95'])}, F1 {_number(part['f1'])}, kappa {_number(part['kappa'])}"
    )


def _threshold_line(part: Mapping[str, Any]) -> str:
    return (
        f"  at the failure threshold: sensitivity {_number(part['sensitivity'])}, specificity "
        f"{_number(part['specificity'])}, precision {_number(part['precision'])} at base rate "
        f"{_number(part['base_rate'])}"
    )


def _abstention_line(part: Mapping[str, Any]) -> str:
    return (
        f"  decided {part['decided']} (coverage {_number(part['coverage'])}): accuracy {_number(part['accuracy'])}; "
        f"supported is right in {_number(part['supported_precision'])} of {part['supported']}"
    )


def _contradiction_line(part: Mapping[str, Any]) -> str:
    return (
        f"  verdicts of contradiction: {part['contradicted_verdicts']}, "
        f"right in {_number(part['contradicted_precision'])}"
    )


def _left_out_lines(report: Mapping[str, Any]) -> list[str]:
    part = report.get("leave_one_source_out")
    if part is None:
        return []
    return [f"  leave-one-source-out: balanced accuracy {_number(part['balanced_accuracy'])}"]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _range(value: Sequence[float] | None) -> str:
    return "" if value is None else f"[{value[0]:.3f}, {value[1]:.3f}]"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items())


def _named(values: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {_number(value)}" for name, value in values.items() if value is not None)
