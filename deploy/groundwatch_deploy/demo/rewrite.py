"""Query rewriting: what the user typed, as key words of the documents.

The tables grow as such tables do: somebody reads the log of questions and adds what users say and documents do not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from groundwatch_deploy.demo import words

_CONTRACTIONS = {
    "what's": "what is", "whats": "what is", "doesn't": "does not", "doesnt": "does not", "can't": "can not",
    "cant": "can not", "don't": "do not", "dont": "do not", "isn't": "is not", "isnt": "is not", "i'm": "i am",
    "how's": "how is", "til": "until", "it's": "it is",
}  # fmt: skip

# What users say -> what the documents say. Applied in this order.
_PHRASES = tuple(
    (re.compile(rf"\b(?:{said})\b"), documented)
    for said, documented in (
        ("(?:plan|plans|tier|subscription|accounts?(?= edition))", "edition"),
        ("free (?:accounts?|users?)", "free edition"),
        ("(?:how big|how large|max(?:imum)? (?:file|upload) size|(?:biggest|largest)(?= file))", "file upload size"),
        ("(?:how much space|disk space|space)(?= |$)", "storage"),
        ("(?:max|maximum) length of a file name", "file name characters"),
        ("(?:minimum|min) length of a password", "password at least characters"),
        ("(?:minimum|min) seats", "seats starts at"),
        ("(?:(?:maximum|max) |^)number of", ""),
        ("folder(?= tree)", "directory"),
        ("(?:quota is full)", "quota used up"),
        ("(?:eat|use) up(?: my| a)?", "use"),
        ("by accident|whenever i want|get from support", ""),
        ("how many days until its gone", "kept days"),
        ("old versions|earlier version", "versions"),
        ("pay(?= by)", "payment"),
        ("pay yearly", "paid yearly"),
        ("broke off", "break"),
        ("how long do i have to resume it", "resumed upload finished within hours"),
        ("what to do", ""),
        ("phone support|call support", "telephone support"),
        ("gigabytes", "GB"),
        ("terabytes", "TB"),
        ("2fa", "two-factor"),
        ("retention of", "kept"),
        ("promised", "promise"),
        ("(?:what does the )?(student licence) costs?", r"\1 euros"),
        ("memoi[sz]e a", "cache"),
        ("file lock last", "lock ends hours"),
        ("how long does (?=a share link)", "link works "),
    )
)

# Words that would do as well when passages are ranked; they are not sent to the search.
_LIKE = {
    "price": "costs", "cost": "price costs", "costs": "price", "undelete": "restore", "old": "earlier",
    "folder": "directory", "maximum": "most up", "limit": "per minute", "minimum": "least starts", "fast": "response",
    "employees": "people", "money": "euros", "expire": "expires", "quick": "response", "business": "paid",
}  # fmt: skip

# Chatter of users: it says nothing about what they want to know.
_CHATTER_WORDS = """
everything out pick still getting please thanks ok just really actually kindly included include able
"""
_CHATTER = frozenset(_CHATTER_WORDS.split())

_CHINESE_PHRASES = {
    "删掉": "删除", "误删": "已删除", "套餐": "版本", "安卓": "", "api": "接口", "传多大": "上传大小",
    "占空间": "占用空间", "几点上班": "时间", "输错几次": "连续输错", "连几台": "连接", "多少位": "字符",
    "一个月": "每月", "每个席位": "每席位", "请求次数": "请求", "上限是多少": "大小限制", "多少钱": "欧元",
    "价格": "欧元", "坏了": "故障", "回滚": "恢复", "几号": "日", "有多大限制": "大小限制", "能调用": "调用接口",
    "什么时候": "", "能用": "", "最多": "", "最长": "", "单个": "单个文件", "单个文件文件": "单个文件",
}  # fmt: skip
_CHINESE_LIKE = {"有效": "有效期", "占用": "不占", "限制": "上限", "大小": "最大"}


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A query in the documents' words."""

    text: str  # what is sent to the retriever
    terms: tuple[tuple[str, str], ...]  # (a word of it, words that would do as well)


def rewrite(query: str, vocabulary: Mapping[str, int]) -> Rewritten:
    """Rewrite *query* for the retriever; *vocabulary* counts in how many passages each token occurs."""
    text = " ".join(words.normalise(query).split())
    return _rewrite_chinese(text) if words.is_chinese(text) else _rewrite_english(text, vocabulary)


def _rewrite_chinese(text: str) -> Rewritten:
    for said, documented in _CHINESE_PHRASES.items():
        text = text.replace(said, documented)
    kept = " ".join(piece for piece in re.split(r"[\s?!,。.~]+", words.without_fillers(text)) if piece)
    return Rewritten(kept, tuple((token, _CHINESE_LIKE.get(token, "")) for token in words.tokens(kept)))


def _rewrite_english(text: str, vocabulary: Mapping[str, int]) -> Rewritten:
    text = " ".join(_CONTRACTIONS.get(word, word) for word in re.findall(r"[\w.'~-]+", text))
    for said, documented in _PHRASES:
        text = said.sub(documented, text)
    said_words = [word.strip(".'") for word in text.split()]
    kept = [_spelled(word, vocabulary) for word in said_words if word not in words.STOP_WORDS | _CHATTER]
    return Rewritten(" ".join(filter(None, kept)), tuple((word, _LIKE.get(word, "")) for word in kept if word))


def _spelled(word: str, vocabulary: Mapping[str, int]) -> str:
    """The nearest known word of the documents, one letter or one swap away, when *word* is not among them."""
    if len(word) < 5 or not word.isalpha() or words.stem(word) in vocabulary:
        return word
    near = [near for near in _one_edit_away(word) if words.stem(near) in vocabulary]
    return max(near, key=lambda found: (vocabulary[words.stem(found)], found), default=word)


def _one_edit_away(word: str) -> set[str]:
    cuts = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    letters = "abcdefghijklmnopqrstuvwxyz"
    swapped = {a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1}
    changed = {a + letter + b[1:] for a, b in cuts if b for letter in letters}
    dropped = {a + b[1:] for a, b in cuts if b}
    return swapped | changed | dropped | {a + letter + b for a, b in cuts for letter in letters}
