"""What a check of `groundwatch doctor` found: how it is, and one sentence about what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    check: str
    status: Status
    found: str
    advice: str = ""  # what to do; empty where nothing has to be done

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def ok(check: str, found: str) -> Finding:
    return Finding(check, "ok", found)


def warn(check: str, found: str, advice: str) -> Finding:
    return Finding(check, "warn", found, advice)


def fail(check: str, found: str, advice: str) -> Finding:
    return Finding(check, "fail", found, advice)
