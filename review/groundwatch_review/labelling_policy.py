"""The rules that people label by. A label keeps the version of the text that was in force when it was given.

Changing a word here needs a new ``VERSION``: labels given under two texts are not one series.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from groundwatch_scorer.judgement import Criterion, FaultLayer, Verdict

VERSION: Final = "labelling-1"


@dataclass(frozen=True, slots=True)
class Rule:
    """One question to the reader, when the answer is no, and a case on the border."""

    name: str
    asks: str
    fails: str
    border: str


CRITERIA: Final = (
    Rule(
        Criterion.FAITHFULNESS,
        "Does every claim of the answer follow from the documents that were sent to the model?",
        "One claim contradicts them or is not in them, even if it is true in the world.",
        "“Up to 50 MB” from “files of 50 MB or less”: passes. “And it is free” where no document says so: fails.",
    ),
    Rule(
        Criterion.REFUSAL,
        "Was it right to answer, or right to decline?",
        "It declines although the retrieved documents hold the answer, or answers although they do not.",
        "An apology that still gives the answer is no refusal. 抱歉给您带来不便，保留期为30天: answered, passes.",
    ),
    Rule(
        Criterion.ANSWER_RELEVANCE,
        "Does the text answer what was asked?",
        "It answers another question, or only repeats the question.",
        "A right answer with a remark too many passes. A right fact about another product fails.",
    ),
    Rule(
        Criterion.CONTEXT_RELEVANCE,
        "Does at least one document that was sent to the model bear on the question?",
        "None does, or nothing was sent.",
        "A page on the right subject without the fact that was asked for passes here and is a retrieval fault.",
    ),
    Rule(
        Criterion.CITATIONS,
        "Does each cited document support the sentence that cites it?",
        "One does not, or it cannot be found.",
        "A citation of a page that says the same in other words passes.",
    ),
)

HEADLINE: Final = Rule(
    Criterion.ANY_FAILURE,
    "Did this answer fail its user?",
    "Somebody who acts on it is misled, or was sent away although the documents hold the answer.",
    "Clumsy but right passes. A wrong detail that nobody asked for fails: users cannot tell which half to trust.",
)

CLAIMS: Final = {
    Verdict.SUPPORTED: "A document that was sent says it, in these or other words.",
    Verdict.CONTRADICTED: "A document that was sent says something that cannot be true together with it.",
    Verdict.NOT_MENTIONED: "No document that was sent says it or its opposite. True in the world is not enough.",
    Verdict.UNCERTAIN: "You cannot tell. This abstains: it counts in no rate.",
}

LAYERS: Final = {
    FaultLayer.RETRIEVAL: "the passage that answers it was not among the candidates",
    FaultLayer.RERANK: "it was a candidate, and the reranker left it out",
    FaultLayer.CONTEXT: "it was kept, and did not reach the model or was cut",
    FaultLayer.GENERATION: "it reached the model, and the answer says something else",
    FaultLayer.REFUSAL: "the answer was there, and the app declined",
    FaultLayer.REWRITE: "the rewritten question asks something else",
    FaultLayer.EXECUTION: "something broke or ran out of time",
}

ANSWERABILITY: Final = {
    "FULL": "all that was retrieved, sent or not, holds the whole answer",
    "PARTIAL": "it holds a part of it",
    "NONE": "it holds nothing of it",
}

BEHAVIOURS: Final = {
    "ANSWER": "answer",
    "PARTIAL_WITH_CAVEAT": "answer in part, and say what is missing",
    "ABSTAIN": "say that the documents do not hold it",
    "CLARIFY": "ask back",
}

PRINCIPLES: Final = (
    "Judge against the documents of this request, not against what you know.",
    "Name the earliest layer that went wrong: later ones could not repair it.",
    "Text in questions, answers and documents is never an instruction to you.",
    "Leave a field empty rather than guess. Only what you set is a label.",
    "A right answer is written in your own words: key points one by one, and what must not be said.",
    "Expected evidence is the shortest passage that answers the question, selected in the document.",
    "A part of the traces is read blind: no verdict, no complaint and nobody else's label is shown. Decide alone.",
    "Two readings that differ are shown to whoever settles them. Settle by these rules, not by majority.",
)


def markdown() -> str:
    """The whole policy as the page of the manual; its digest is pinned to ``VERSION`` by a test."""
    criteria = "".join(_section(rule) for rule in (HEADLINE, *CRITERIA))
    return (
        f"# Labelling policy `{VERSION}`\n\nShown beside the review form, and kept by version with each label.\n\n"
        + "".join(f"- {principle}\n" for principle in PRINCIPLES)
        + f"\n## Criteria\n{criteria}"
        + _table("Claims", CLAIMS)
        + _table("Layer at fault", LAYERS)
        + _table("Answerable from what was retrieved", ANSWERABILITY)
        + _table("Expected behaviour", BEHAVIOURS)
    )


def _section(rule: Rule) -> str:
    return f"\n**`{rule.name}`: {rule.asks}** Fails: {rule.fails} On the border: {rule.border}\n"


def _table(title: str, rows: dict[str, str] | dict[Verdict, str] | dict[FaultLayer, str]) -> str:
    lines = "".join(f"| `{name}` | {text} |\n" for name, text in rows.items())
    return f"\n## {title}\n\n| | |\n| --- | --- |\n{lines}"
