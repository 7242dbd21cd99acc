"""The extractive answerer: quotes the sentence that answers best, with its source, or says that there is none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from groundwatch_deploy.demo import words
from groundwatch_deploy.demo.corpus import Passage
from groundwatch_deploy.demo.retrieval import Index, Sentence, Wanted, coverage
from groundwatch_deploy.demo.rewrite import Rewritten

REFUSAL_EN = "I could not find this in the documentation."
REFUSAL_ZH = "文档中没有找到相关内容。"
REST_EN = "I could not find the rest in the documentation."
REST_ZH = "其余部分在文档中没有找到。"

# What a question asks for -> what a sentence that answers it holds. The first that matches counts.
_EXPECTED = tuple(
    (re.compile(asked), re.compile(holds))
    for asked, holds in (
        (
            "how long|how often|how fast|how quick|when |until|hours|retention|refund|extended"
            "|多久|多少天|几天|时候|保留期|有效期|几点|几号",
            r"\d[\d:]*\s*(?:years?|months?|days?|hours?|minutes?|seconds?|年|个月|天|小时|分钟|秒|次|日)"
            r"|\d+:\d\d|\d(?:st|nd|rd|th) day|first day|第一天|at any time|once per|times",
        ),
        ("price|cost|how much is|discount|多少钱|价格|折扣", r"\d\s*(?:euros?|percent)|欧元|%"),
        ("how big|size|storage|space|多大|空间|上传", r"\d\s*(?:GB|TB|MB)"),
        ("how many|number of|max|limit|minimum|length|多少|几个|几位|几台|几次|最多|上限|至少", r"\d"),
    )
)
_NEARLY_AS_GOOD = 0.05
_SIGNATURE = re.compile(r"[\w.]+\([^\n]*\)(?: -> [^\n]+)?")  # names a function and says nothing about it
_TWO_THINGS = re.compile(r"\s+and\s+(?=(?:can|do|does|is|are|to|how|what|where|who)\b)|[，,]\s*(?=[\u3400-\u9fff])")
_HOW_MANY = re.compile(r"(?:how many|number of|maximum|minimum) ([\w ]{3,40})")
_HOW_MANY_CHINESE = re.compile(r"(?:几[个位台次]|多少[个位台次]?)([\u3400-\u9fff]{2})")
_COUNTED = re.compile(r"\d[\d,.]*\s+(?:[个位台次]([\u3400-\u9fff]{2,3})|((?:[a-z-]+\s?){1,2}))", re.I)


@dataclass(frozen=True, slots=True)
class Quote:
    sentence: str
    source: Passage
    number: int  # the passage's number in the context, from 1
    confidence: float  # in [0, 1]


def best_quotes(index: Index, query: str, rewritten: Rewritten, context: Sequence[Passage]) -> list[Quote]:
    """The sentence of *context* that answers best; a second one when it is nearly as good."""
    asked = _Asked.of(index, query, rewritten)
    scored = sorted(
        (
            (asked.score(index, passage, sentence) - 0.02 * number, -number, -place, passage, sentence)
            for number, passage in enumerate(context, start=1)
            for place, sentence in enumerate(index.entries[passage.id].sentences)
            if _quotable(sentence.text)
        ),
        key=lambda item: item[:3],
        reverse=True,
    )
    if not scored:
        return []
    near = [item for item in scored[:2] if item[0] >= scored[0][0] - _NEARLY_AS_GOOD]
    return [Quote(s.text, p, -rank, asked.confidence(index, p, s)) for _score, rank, _place, p, s in near]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question as the answerer reads it."""

    wanted: Sequence[Wanted]
    expected: tuple[re.Pattern[str], ...]
    counted: frozenset[str]  # how many of what

    @classmethod
    def of(cls, index: Index, query: str, rewritten: Rewritten) -> _Asked:
        plain = words.normalise(query)
        expected = tuple(holds for asks, holds in _EXPECTED if asks.search(plain))
        what = _HOW_MANY.search(words.normalise(rewritten.text)) or _HOW_MANY_CHINESE.search(plain)
        return cls(index.weigh(rewritten), expected[:1], frozenset(words.tokens(what[1])[:2] if what else ()))

    def score(self, index: Index, passage: Passage, sentence: Sentence) -> float:
        """Cover of the question by the sentence, a little by what is around it, and the kind of fact asked for."""
        entry = index.entries[passage.id]
        return (
            0.5 * coverage(self.wanted, sentence.tokens)
            + 0.25 * coverage(self.wanted, sentence.tokens | entry.title_tokens)
            + 0.25 * coverage(self.wanted, entry.tokens)
            + 0.1 * self._named(entry.title_tokens)
            + 0.15 * any(kind.search(sentence.text) for kind in self.expected)
            + 0.15 * self._counts(sentence.text)
        )

    def confidence(self, index: Index, passage: Passage, sentence: Sentence) -> float:
        """How sure it is that *sentence* answers, in [0, 1]. Weights fitted on the bank of questions, with and
        without the passage that holds the answer."""
        entry = index.entries[passage.id]
        cover = (
            0.2 * coverage(self.wanted, sentence.tokens)
            + 0.4 * coverage(self.wanted, sentence.tokens | entry.title_tokens)
            + 0.4 * coverage(self.wanted, entry.tokens)
        )
        lacks_kind = bool(self.expected) and not any(kind.search(sentence.text) for kind in self.expected)
        lacks_count = bool(self.counted) and not self._counts(sentence.text)
        return cover * (0.85 if lacks_kind else 1.0) * (0.7 if lacks_count else 1.0)

    def _named(self, title: frozenset[str]) -> float:
        """Share of the title that the question names, in [0, 1]."""
        return sum(not want.tokens.isdisjoint(title) for want in self.wanted) / max(1, len(title))

    def _counts(self, text: str) -> bool:
        """Whether *text* counts what was asked: "how many guests" and "20 guests"."""
        found = (words.tokens(match[1] or match[2]) for match in _COUNTED.finditer(text))
        return any(self.counted & set(counted) for counted in found)


def _quotable(text: str) -> bool:
    return len(text) >= 8 and ">>>" not in text and not _SIGNATURE.fullmatch(text)


def halves(query: str) -> list[str]:
    """The two halves of a question that asks two things; nothing for any other question."""
    parts = [part for part in _TWO_THINGS.split(query) if part.strip()]
    return parts if len(parts) == 2 else []


def rest_not_found(query: str) -> str:
    return REST_ZH if words.is_chinese(query) else REST_EN


def refusal(query: str) -> str:
    return REFUSAL_ZH if words.is_chinese(query) else REFUSAL_EN
