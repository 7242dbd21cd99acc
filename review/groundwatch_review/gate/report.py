"""The gate's report: Markdown for a pull request, HTML for a browser."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence

from groundwatch_review.gate.comparison import Change, ItemChange
from groundwatch_review.gate.verdict import Verdict

_HEADLINE: Mapping[str, str] = {
    "passed": "Passed",
    "blocked": "Blocked",
    "measured": "Measured",
    "not_measured": "Not measured",
}
_MOST_ITEMS = 2_000  # of the list of items that changed
_NAMED = 5  # ids of items that a sentence names
Row = Sequence[str]


def markdown(verdict: Verdict, *, most_items: int = _MOST_ITEMS) -> str:
    """The report, with the *most_items* worst items that moved. They are named by id only: questions and answers stay
    in the set."""
    parts = [f"# {_HEADLINE[verdict.decision]}", f"{verdict.reason.capitalize()}.", *_scores(verdict)]
    parts += _set_change(verdict) + _executions(verdict) + _set(verdict) + _noise(verdict) + _anchors(verdict)
    parts += _items(verdict, most_items)
    return "\n\n".join(parts) + "\n"


def _scores(verdict: Verdict) -> list[str]:
    if not verdict.changes:
        rows = [(s.layer, name, _number(s.mean), str(s.applicable)) for name, s in verdict.scores.items()]
        return ["## Scores", _table(("layer", "score", "mean", "items"), rows)]
    head = ("layer", "score", "before", "now", "change", "95 % interval", "worse / better", "pairs", "p", "")
    note = (
        "p is for a drop, adjusted for testing several scores; a score without p does not block. "
        "Not applicable is left out, so pairs differ."
    )
    return ["## Scores", _table(head, [_change(change) for change in verdict.changes]), note]


def _change(change: Change) -> Row:
    relative = "" if change.relative is None else f" ({change.relative:+.0%})"
    interval = "" if change.low is None or change.high is None else f"{change.low:+.3f} to {change.high:+.3f}"
    return (
        change.layer,
        change.name,
        _number(change.before),
        _number(change.after),
        "" if change.difference is None else f"{change.difference:+.3f}{relative}",
        interval,
        f"{change.worse} / {change.better}",
        str(change.pairs),
        _p_value(change.p),
        "**blocks**" if change.blocks else "",
    )


def _p_value(p: float | None) -> str:
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _executions(verdict: Verdict) -> list[str]:
    e = verdict.executions
    failed = ", ".join(f"{count} {reason}" for reason, count in e.failed.items()) or "none failed"
    said = f" Said of them: {'; '.join(e.said)}. Ask one question by hand to see more." if e.said else ""
    return [
        "## Executions",
        f"{e.succeeded} of {e.asked} questions got a reply; {e.retried} were asked again; {failed}.{said}",
    ]


def _set(verdict: Verdict) -> list[str]:
    m = verdict.makeup
    kinds = {
        "status": m.status,
        "origin": m.origin,
        "language": m.languages,
        "answerability": m.answerability,
        "split": m.split,
    }
    rows = [(name, ", ".join(f"{kind} {count}" for kind, count in counts.items())) for name, counts in kinds.items()]
    size = (
        f"{m.items} items in {m.families} families; {m.with_evidence} with expected evidence, {m.with_reference} "
        f"with a reference. A score near 90 % is known to ±{100 * m.smallest_difference:.1f} % with this many "
        "families: smaller changes cannot be told from chance by its value alone."
    )
    blind = (
        f"{m.only_forbidden} items say only what must not be answered: there `answer_correctness` is 1 for anything "
        "else, a wrong answer included. Give them a reference answer."
    )
    return ["## The set", size, *([blind] if m.only_forbidden else []), _table(("", "items"), rows)]


def _noise(verdict: Verdict) -> list[str]:
    if not verdict.noise:
        return []
    rows = [
        (str(p.added), f"{p.taken} of {p.answered}", _number(p.faithfulness), _number(p.answer_correctness))
        for p in verdict.noise
    ]
    parts = ["## Noise", _table(("irrelevant documents", "taken", "faithfulness", "answer correctness"), rows)]
    if any(p.answered and not p.taken for p in verdict.noise):
        parts.append(
            "Where none was taken, the application did not put `extra_documents` into its context: see the docs."
        )
    return parts


def _anchors(verdict: Verdict) -> list[str]:
    if not verdict.broken_anchors:
        return []
    rows = [(b.item_id, b.anchor_id) for b in verdict.broken_anchors]
    return ["## Evidence that the corpus no longer holds", _table(("item", "anchor"), rows)]


def _set_change(verdict: Verdict) -> list[str]:
    change = verdict.set_change
    if change is None:
        return []
    if change.unknown:
        return [
            "The baseline tells nothing of its items: whether one was changed since cannot be seen. Save it again."
        ]
    kinds = (("changed", change.changed), ("added", change.added), ("gone", change.gone))
    moved = [f"{len(ids)} {name} ({_some(ids)})" for name, ids in kinds if ids]
    if not moved:
        return []
    return [
        f"**The set is not the baseline's:** {', '.join(moved)}. Compared are the {change.same} that are the same."
    ]


def _some(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(map(_one_line, ids[:_NAMED])) + more


def _items(verdict: Verdict, most: int) -> list[str]:
    if verdict.set_change is None:
        return []
    if not verdict.items:
        return ["## Items", "No item changed."]
    by_item: dict[str, list[ItemChange]] = {}
    for change in verdict.items:
        by_item.setdefault(change.item_id, []).append(change)
    worst = sorted(by_item.items(), key=lambda entry: sum(min(0.0, change.rise or 0.0) for change in entry[1]))
    rows = [(item_id, "; ".join(map(_moved, changes))) for item_id, changes in worst[:most]]
    left = len(by_item) - len(rows)
    rest = [f"{left} more items are in `--json`, and in `--report FILE` up to {_MOST_ITEMS}."] if left else []
    return ["## Items that changed, the worst first", _table(("item", "what"), rows), *rest]


def _moved(change: ItemChange) -> str:
    return f"{change.score} {_number(change.before)} to {_number(change.after)}"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"


def _table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_one_line(cell) for cell in line) + " |" for line in lines)


def _one_line(cell: str) -> str:
    """*cell* inside its table: ids are of the set's author, and a line break in one would begin a part of its own."""
    return " ".join(cell.split()).replace("|", "\\|")


_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
table{border-collapse:collapse;display:block;overflow-x:auto}
th,td{padding:.3rem .7rem;border-bottom:1px solid #8884;text-align:left;font-variant-numeric:tabular-nums}
th,td:not(:last-child){white-space:nowrap}
td:last-child{min-width:14rem}
td:nth-child(n+4):last-child{min-width:0}
.blocks{font-weight:700;color:light-dark(#b3261e,#ff8a80)}
"""


def page(text: str) -> str:
    """*text* of :func:`markdown` as one HTML page. Every value is escaped; no script, nothing loaded."""
    body = "\n".join(_block(block) for block in text.strip().split("\n\n"))
    title = html.escape(text.split("\n", 1)[0].lstrip("# "))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Gate: {title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style><body>{body}</body></html>\n'
    )


def _block(block: str) -> str:
    if block.startswith("#"):
        level = len(block) - len(block.lstrip("#"))
        return f"<h{level}>{html.escape(block.lstrip('# '))}</h{level}>"
    if block.startswith("|"):
        head, _rule, *rows = block.split("\n")
        return (
            f"<table><thead>{_row(head, 'th')}</thead><tbody>{''.join(_row(r, 'td') for r in rows)}</tbody></table>"
        )
    strong = re.sub(r"\A\*\*([^*]+)\*\*", r"<strong>\1</strong>", html.escape(block))
    return f"<p>{strong}</p>"


def _row(line: str, tag: str) -> str:
    cells = line.strip("|").replace("\\|", "\x00").split("|")
    return "<tr>" + "".join(_cell(cell.replace("\x00", "|").strip(), tag) for cell in cells) + "</tr>"


def _cell(text: str, tag: str) -> str:
    if text == "**blocks**":
        return f'<{tag} class="blocks">blocks</{tag}>'
    return f"<{tag}>{html.escape(text)}</{tag}>"
