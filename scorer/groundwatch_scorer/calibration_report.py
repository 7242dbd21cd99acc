"""The calibration report as a page for people: Markdown, or HTML where the file is named so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

_BANDS = ((0.9, "strong"), (0.7, "usable"), (0.5, "weak"))  # words beside an interval, never a gate


@dataclass(frozen=True, slots=True)
class _Part:
    title: str
    text: str = ""
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def write(report: Mapping[str, Any], path: Path) -> None:
    """Write *report*, as :func:`calibration.evaluate` makes it, to *path*: HTML for .html and .htm, else Markdown."""
    page = _html if path.suffix.lower() in (".html", ".htm") else _markdown
    path.write_text(page(f"How far to believe {report['judge']}", _parts(report)), encoding="utf-8")


def sentence(report: Mapping[str, Any]) -> str:
    """What somebody on call needs to know of this judge, in one sentence."""
    part = report["faithfulness"]["at_failure_threshold"]
    caught, spared, base = part["sensitivity"], part["specificity"], 0.05
    if caught is None or spared is None:
        return "The labels do not say how often this judge is right about unfaithful answers."
    flagged = base * caught + (1 - base) * (1 - spared)
    right = (
        f", so that where 5 in 100 answers are bad, {base * caught / flagged:.0%} of its flags are right"
        if flagged
        else ""
    )
    return (
        f"On this data it flags {caught:.0%} of the bad answers and {1 - spared:.0%} of the good ones{right}: "
        "believe the corrected rate, and read the answer before you believe one flag."
    )


def _parts(report: Mapping[str, Any]) -> list[_Part]:
    faithful = report["faithfulness"]
    digest = f" (SHA-256 {report['data_sha256'][:12]})" if "data_sha256" in report else ""
    parts = [
        _Part("In one sentence", sentence(report)),
        _Part(
            "Data",
            f"{report['rows']} rows of {len(report['sources'])} sources{digest}. Intervals are 95 %, by "
            "drawing whole families. The words strong (from 0.9), usable (0.7) and weak (0.5) are labels only.",
        ),
        _Part(
            "Faithfulness",
            "An unfaithful answer is the positive class; the worst claim decides, cut at 0.5.",
            _GROUP_HEADER,
            tuple(_groups(faithful)),
        ),
        _Part("Confusion", "", ("", "said unfaithful", "said faithful"), _confusion(faithful["confusion"])),
        _Part(
            "Verdicts",
            "How often the verdict of the worst claim is right.",
            ("language", "verdict", "n", "right", "95 %"),
            tuple(_verdicts(faithful["verdicts"])),
        ),
        _Part(
            "Reliability",
            f"Expected calibration error {_figure(faithful['reliability']['expected_calibration_error'])}.",
            ("from", "n", "stated", "observed", "95 %"),
            tuple(_bins(faithful["reliability"]["bins"])),
        ),
        _refusal_part(report["refusal"]),
        _refusal_confusion(report["refusal"]["confusion"]),
    ]
    return parts + ([_stability_part(report["stability"])] if report.get("stability") else [])


_GROUP_HEADER = (
    "cases",
    "n",
    "base rate",
    "balanced accuracy",
    "95 %",
    "in a word",
    "AUROC",
    "95 %",
    "kappa",
    "95 %",
)


def _groups(faithful: Mapping[str, Any]) -> Iterable[tuple[str, ...]]:
    yield _group("all", faithful)
    for kind in ("by_language", "by_source", "by_length"):
        for name, part in faithful[kind].items():
            yield _group(name, part)


def _group(name: str, part: Mapping[str, Any]) -> tuple[str, ...]:
    reached = part["balanced_accuracy"]
    return (
        name,
        str(part["n"]),
        _figure(part["base_rate"]),
        _figure(reached),
        _range(part["balanced_accuracy_95"]),
        _band(reached),
        _figure(part["auroc"]),
        _range(part["auroc_95"]),
        _figure(part["kappa"]),
        _range(part["kappa_95"]),
    )


def _band(value: float | None) -> str:
    return "" if value is None else next((word for least, word in _BANDS if value >= least), "no use")


def _confusion(counts: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    return (
        ("is unfaithful", str(counts["true_positive"]), str(counts["false_negative"])),
        ("is faithful", str(counts["false_positive"]), str(counts["true_negative"])),
    )


def _verdicts(parts: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[str, ...]]:
    for language, verdicts in parts.items():
        for verdict, part in verdicts.items():
            yield language, verdict, str(part["n"]), _figure(part["precision"]), _range(part["precision_95"])


def _bins(bins: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, ...]]:
    for row in bins:
        yield (
            f"{row['from']:.1f}",
            str(row["n"]),
            _figure(row["stated"]),
            _figure(row["observed"]),
            _range(row.get("observed_95")),
        )


def _refusal_part(refusal: Mapping[str, Any]) -> _Part:
    groups = {"all": refusal, **refusal["by_language"], **refusal["by_source"]}
    rows = tuple(
        (
            name,
            kind.replace("_", " "),
            str(part["n"]),
            _figure(part["balanced_accuracy"]),
            _figure(part["f1"]),
            _figure(part["kappa"]),
        )
        for name, group in groups.items()
        for kind in ("full_against_none", "any_against_none")
        if (part := group[kind])["n"]
    )
    return _Part("Refusal", "", ("cases", "question", "n", "balanced accuracy", "F1", "kappa"), rows)


def _refusal_confusion(counts: Mapping[str, int]) -> _Part:
    return _Part(
        "Refusal, all three kinds", "", ("label and reading", "n"), tuple((k, str(n)) for k, n in counts.items())
    )


def _stability_part(part: Mapping[str, Any]) -> _Part:
    text = (
        f"{part['cases']} cases read {part['repeats']} times: largest spread of a probability "
        f"{part['largest_spread']:.3f}, {part['flagged']} above 0.05. "
        "Verdicts that moved with a change that should move none:"
    )
    rows = tuple((name.replace("_", " "), f"{moved} of {part['cases']}") for name, moved in part["moved"].items())
    strange = part["false_support"]
    text = (
        f"With the passages of another case, which support nothing, {strange['supported']} of "
        f"{strange['claims']} claims were called supported. {text}"
    )
    return _Part("Stability", text, ("change", "moved"), rows)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _range(value: Sequence[float] | None) -> str:
    return "-" if value is None else f"{value[0]:.3f} to {value[1]:.3f}"


def _markdown(title: str, parts: Iterable[_Part]) -> str:
    lines = [f"# {title}"]
    for part in parts:
        lines += ["", f"## {part.title}"] + (["", part.text] if part.text else [])
        if part.header:
            lines += ["", _row(part.header), _row(["---"] * len(part.header)), *map(_row, part.rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:80rem;margin:2rem auto;padding:0 1rem;color:#1c2430}"
    "table{border-collapse:collapse}td,th{padding:.25rem .6rem;border-bottom:1px solid #d8dde3;text-align:left}"
    "td,th{white-space:nowrap}"
    "td{font-variant-numeric:tabular-nums}"
)


def _html(title: str, parts: Iterable[_Part]) -> str:
    body = [f"<h1>{escape(title)}</h1>"]
    for part in parts:
        body.append(f"<h2>{escape(part.title)}</h2>" + (f"<p>{escape(part.text)}</p>" if part.text else ""))
        if part.header:
            rows = [_cells("th", part.header), *(_cells("td", row) for row in part.rows)]
            body.append("<table>" + "".join(rows) + "</table>")
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _cells(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
