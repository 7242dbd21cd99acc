"""The instructions that an LLM judge is given: versioned text, because a changed word is a changed measure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib import resources
from pathlib import Path

VERSION = "rubric-v1"
SHIPPED = {"": VERSION, "zh": f"{VERSION}-zh"}
"""Name in the configuration to version. The first is in English, with examples in both languages."""

MUST_NAME = (
    *("supported", "contradicted", "not_mentioned", "no_claim"),
    *("relevant", "partial", "irrelevant", "FULL", "PARTIAL", "NONE", "full", "none"),
    *("supports", "does_not_support", "nonce", "injection_suspected"),
)
"""What any rubric has to speak of: the words of the reply, and what must not be repeated."""

_HEAD = re.compile(r"\A\ufeff?<!--\s*version:\s*([^\n]*?)\s*-->\s*\n")
_VERSION = re.compile(r"[a-z0-9][a-z0-9.-]{0,39}")
_LONGEST = 32_000  # characters; it is sent with every call


class RubricRefused(ValueError):
    """A rubric that may not be used; the message says what was found and what is accepted."""


@dataclass(frozen=True, slots=True)
class Rubric:
    version: str  # in the identifier of every verdict
    text: str


def rubric(name: str = "") -> Rubric:
    """The shipped rubric of this *name*, or the one in the Markdown file there. Raises :class:`RubricRefused`."""
    return shipped(name) if name in SHIPPED else from_file(Path(name))


@lru_cache(maxsize=len(SHIPPED))
def shipped(name: str) -> Rubric:
    """Change a text only together with its version and its file name."""
    version = SHIPPED[name]
    file = version.replace("-", "_") + ".md"
    return Rubric(version, resources.files(__package__).joinpath(file).read_text(encoding="utf-8"))


def from_file(path: Path) -> Rubric:
    """A rubric of one's own: a line ``<!-- version: NAME -->``, then the text that the model is given.

    The version ends in a digest of the text, so that a changed word starts another series whatever its name says.
    """
    try:
        whole = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise RubricRefused(f"{path} is not text in UTF-8; accepted: a Markdown file") from None
    except OSError as error:
        names = ", ".join(repr(known) for known in SHIPPED if known)
        raise RubricRefused(f"{path}: {error.strerror}; accepted: a Markdown file, {names} or empty") from None
    return parse(whole, str(path))


def parse(whole: str, where: str) -> Rubric:
    head = _HEAD.match(whole)
    if head is None:
        raise RubricRefused(f"{where} does not begin with its version; accepted: a first line <!-- version: NAME -->")
    name, text = head[1], whole[head.end() :].strip() + "\n"
    if not _VERSION.fullmatch(name):
        raise RubricRefused(f"{where} has the version {name[:60]!r}; accepted: up to 40 of a-z, 0-9, dot and hyphen")
    if len(text) > _LONGEST:
        raise RubricRefused(f"{where} has {len(text)} characters; accepted: up to {_LONGEST}, sent with every call")
    missing = [word for word in MUST_NAME if not re.search(rf"\b{word}\b", text, re.ASCII)]
    if missing:
        raise RubricRefused(f"{where} does not speak of {', '.join(missing)}; accepted: a text that names them all")
    return Rubric(f"{name}.{sha256(text.encode()).hexdigest()[:8]}", text)
