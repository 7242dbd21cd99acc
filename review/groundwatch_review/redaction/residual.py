"""What still looks like somebody's data after redaction. Strict on purpose: a person then has to look."""

from __future__ import annotations

import re
from typing import Final

from groundwatch_review.redaction.credentials import entropy
from groundwatch_review.redaction.views import View

# Seven digits in one run, or nine and more in groups: shorter ones are years, limits, codes.
_RUN: Final = re.compile(r"(?<![0-9,.])[0-9]{7,}(?![0-9]|,[0-9]{3})")
_GROUPS: Final = re.compile(r"(?<![0-9A-Za-z.,\-])[0-9]{2,8}(?:[ \-][0-9]{2,8}){2,5}(?![0-9A-Za-z\-])")
_SPELLED: Final = re.compile(r"(?<![0-9])(?:[0-9][ .\-]){8,20}[0-9](?![0-9])")
_AT: Final = re.compile(r"[A-Za-z0-9_.+\-]@[A-Za-z0-9]")
_MIXED: Final = re.compile(r"[A-Za-z0-9+/_=\-]{12,}")
_SWITCH: Final = re.compile(r"[A-Za-z][0-9]|[0-9][A-Za-z]")
_ADDRESS: Final = re.compile(r"(?<![0-9A-Za-z])0x[0-9A-Fa-f]{1,16}(?![0-9A-Za-z])")  # machine addresses, error codes
_DATE: Final = re.compile(r"^(?:19|20)[0-9]{2}[ \-][01]?[0-9][ \-][0-3]?[0-9]$")


def suspicions(view: View) -> tuple[str, ...]:
    """Which of ``digits``, ``at_sign`` and ``token`` are left in *view*; our own placeholders are hidden in it."""
    text = _ADDRESS.sub(" ", view.ascii)
    found = {
        "digits": any(_significant(match.group()) for match in _RUN.finditer(text))
        or bool(_number(text))
        or _SPELLED.search(text) is not None,
        "at_sign": "@" in text and _AT.search(text) is not None,
        "token": any(_random(match.group()) for match in _MIXED.finditer(text)),
    }
    return tuple(name for name, left in found.items() if left)


def _significant(run: str) -> bool:
    """1000000 is a limit, 00000000 a sample; 1234567 could be anybody's number."""
    return len(run.rstrip("0")) > 2


def _number(text: str) -> list[str]:
    groups = (match.group() for match in _GROUPS.finditer(text))
    return [group for group in groups if sum(map(str.isdigit, group)) >= 9 and not _DATE.match(group)]


def _random(run: str) -> bool:
    return len(_SWITCH.findall(run)) >= 3 and entropy(run) > 3.2
