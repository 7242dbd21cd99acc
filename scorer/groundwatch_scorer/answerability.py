"""How well passages and answers fit the question, by shared words. Experimental: shared words are not an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .evidence import Library, Weights
from .judgement import Answerability
from .text import is_chinese, is_cjk, tokens
from .text_tables import CHINESE_QUESTION_WORDS, ENGLISH_QUESTION_WORDS

FULL_FROM = 0.62  # relevance of the best passage
PARTIAL_FROM = 0.4
_CHINESE_SCALE = 1.4  # bigrams straddle words, so that a passage that answers covers fewer of them
_TITLE_CHARACTERS = 90
_FEW_WORDS = 3
_FEW_PAIRS = 5  # of Chinese characters: about as many words
_REWRITE_KEEPS = 0.34  # share of the question's content words below which a rewrite has lost the question
_REWRITE_WORDS = 2  # content words that a question needs before its loss means something


class Question:
    """The content words of a question, as asked and as rewritten for the search."""

    def __init__(self, query: str | None, rewritten: str | None = None) -> None:
        # A rewrite that keeps one word may be the same question in the words of the documents: it goes on counting.
        told = (query,) if _kept(query, rewritten) == 0 else (query, rewritten)
        versions = [content_tokens(text) for text in told if text]
        self.versions = [v for v in versions if v]
        self.tokens = frozenset().union(*self.versions) if self.versions else frozenset()
        chinese = is_chinese(query or rewritten or "")
        self._scale = _CHINESE_SCALE if chinese else 1.0
        self._few = _FEW_PAIRS if chinese else _FEW_WORDS

    @property
    def too_short(self) -> bool:
        """Whether it has so few content words that not finding them says nothing: "What is the SLA?"."""
        return all(len(version) < self._few for version in self.versions)

    def share(self, have: frozenset[str], weights: Weights) -> float | None:
        """Share of the question's weight that *have* covers, in its better wording. None: no content words."""
        return max((self.scaled(_covered(version, have, weights)) for version in self.versions), default=None)

    def scaled(self, share: float) -> float:
        """A share brought to one scale for both languages."""
        return min(1.0, share * self._scale)


def rewrite_lost(query: str | None, rewritten: str | None) -> bool:
    """Whether the query that was searched for hardly asks what the user asked, so that a search may fail by it."""
    kept = _kept(query, rewritten)
    return kept is not None and kept < _REWRITE_KEEPS


def _kept(query: str | None, rewritten: str | None) -> float | None:
    """Share of the question's content that its rewrite keeps.

    None of a translation, which shares no words, and of questions too short to tell.
    """
    if not query or not rewritten or is_chinese(query) != is_chinese(rewritten):
        return None
    asked, kept = content_tokens(query), content_tokens(rewritten)
    if is_chinese(query):  # a rewrite drops the small words between, and with them pairs of characters
        asked, kept = frozenset("".join(asked)), frozenset("".join(kept))
    return len(asked & kept) / len(asked) if len(asked) >= _REWRITE_WORDS else None


def content_tokens(query: str) -> frozenset[str]:
    """Tokens of a question without the words that only make it a question."""
    return frozenset(t for t in tokens(query) if t not in ENGLISH_QUESTION_WORDS and t not in CHINESE_QUESTION_WORDS)


def _covered(wanted: frozenset[str], have: frozenset[str], weights: Weights) -> float:
    characters = frozenset("".join(have))
    weighed = weights.weigh(wanted)
    found = sum([w * _match(t, have, characters) for t, w in zip(weighed.order, weighed.weight, strict=True)])
    return found / weighed.total


def _match(token: str, have: frozenset[str], characters: frozenset[str]) -> float:
    if token in have:
        return 1.0
    if is_cjk(token):
        return 0.3 * all(c in characters for c in token)
    # "upload" and "uploader", "config" and "configuration": the same word for a question
    alike = len(token) >= 4 and any(t.startswith(token) or token.startswith(t) for t in have if len(t) >= 4)
    return 0.7 if alike else 0.0


def relevance(question: Question, library: Library, weights: Weights) -> tuple[float | None, ...]:
    """Per document: the share of the question that its best passage and title cover. None: no text or no question."""
    return tuple(
        _document_relevance(question, library, weights, index) if document.text else None
        for index, document in enumerate(library.documents)
    )


def _document_relevance(question: Question, library: Library, weights: Weights, index: int) -> float | None:
    best: float | None = None
    title = title_tokens(library, index)
    for version in question.versions:
        window = library.best_window(version, weights, only=index)
        have = title if window is None else title | library.window_tokens(window)
        share = question.scaled(_covered(version, have, weights))
        best = share if best is None else max(best, share)
    return best


def title_tokens(library: Library, index: int) -> frozenset[str]:
    """Tokens of the document's title, or of a first line that looks like one."""
    document = library.documents[index]
    title = document.title or (document.text or "").split("\n", 1)[0]
    return frozenset(tokens(title)) if len(title) <= _TITLE_CHARACTERS else frozenset()


def answerability(question: Question, relevances: Sequence[float | None]) -> Answerability | None:
    """Whether the documents behind *relevances* can answer. None: it cannot be told."""
    known = [r for r in relevances if r is not None]
    if not relevances:
        return Answerability.NONE
    if not known or not question.versions:
        return None
    best = max(known)
    if best >= FULL_FROM:
        return Answerability.FULL
    return Answerability.PARTIAL if best >= PARTIAL_FROM else Answerability.NONE


def answer_relevance(
    question: Question, answer: str, grounds: Iterable[tuple[Library, int, int, int]], weights: Weights
) -> float | None:
    """How much of the question the answer takes up, itself or through the passage it rests on.

    *grounds* are (library, document, first sentence, last sentence) of the evidence behind the claims.
    """
    around: dict[int, frozenset[str]] = {}  # claims rest on the same sentences again and again
    for library, document, first, last in grounds:
        title, found = title_tokens(library, document), library.passages[document].tokens
        for words in (title, *found[max(0, first - 1) : last + 2]):
            around[id(words)] = words
    share = question.share(frozenset(tokens(answer)).union(*around.values()), weights)
    return None if share is not None and share < PARTIAL_FROM and question.too_short else share
