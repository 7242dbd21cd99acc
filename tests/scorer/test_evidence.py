"""The passage that covers a claim best, as a true substring."""

from __future__ import annotations

import pytest

from groundwatch_collector.ragtrace import Document
from groundwatch_scorer.evidence import Library, Weights, Window, flattened, number_template
from groundwatch_scorer.text import tokens

MANUAL = "Uploads stop at 5 GB in the browser. Deleted files go to the trash. The trash is emptied after 14 days."
OTHER = "The office in Lisbon opens at nine."


def _library(*texts: str) -> Library:
    return Library([Document(f"d{i}", i, text=text) for i, text in enumerate(texts, 1)])


def _best(claim: str, library: Library) -> Window | None:
    return library.best_window(frozenset(tokens(claim)), Weights(library.passages))


def test_the_shortest_window_that_says_it_wins():
    library = _library(OTHER, MANUAL)
    window = _best("The trash is emptied after two weeks.", library)
    assert window is not None
    found = library.evidence(window)
    assert (found.document_id, found.quote) == ("d2", "The trash is emptied after 14 days.")
    assert MANUAL[found.start : found.end] == found.quote


def test_a_claim_over_two_sentences_gets_both():
    library = _library(MANUAL)
    window = _best("Deleted files go to the trash, which is emptied after a while.", library)
    assert window is not None
    assert library.evidence(window).quote == "Deleted files go to the trash. The trash is emptied after 14 days."


def test_one_document_can_be_asked_alone():
    library = _library(OTHER, MANUAL)
    wanted = frozenset(tokens("the office trash"))
    window = library.best_window(wanted, Weights(), only=1)
    assert window is not None
    assert window.document == 1


@pytest.mark.parametrize("claim", ["", "Zebras graze.", "的"])
def test_nothing_in_common_has_no_window(claim):
    assert _best(claim, _library(MANUAL)) is None


def test_rare_words_weigh_more():
    weights = Weights()
    assert weights.weigh(frozenset({"zeppelin"})).total > weights.weigh(frozenset({"year"})).total


def test_blanks_and_numbers_do_not_hide_a_copy():
    assert flattened("单个文件\n最大　５０ GB") == "单个文件最大 50 gb"
    assert number_template(flattened("kept for 1,200 Days")) == number_template(flattened("kept for 1 day"))
