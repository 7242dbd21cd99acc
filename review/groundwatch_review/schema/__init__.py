"""The published format of a candidate, and the check of a document against it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any, Final

from jsonschema import Draft202012Validator, FormatChecker

CANDIDATE_SCHEMA: Final[Mapping[str, Any]] = json.loads(
    resources.files(__name__).joinpath("regression_candidate.schema.json").read_text(encoding="utf-8")
)


@cache
def _validator() -> Draft202012Validator:
    Draft202012Validator.check_schema(dict(CANDIDATE_SCHEMA))
    return Draft202012Validator(dict(CANDIDATE_SCHEMA), format_checker=_formats())


def _formats() -> FormatChecker:
    """Formats that are really checked: jsonschema knows ``date-time`` only with an extra package."""
    checker = FormatChecker(formats=())

    def date_time(value: object) -> bool:
        return not isinstance(value, str) or _is_date_time(value)

    checker.checks("date-time")(date_time)
    return checker


def _is_date_time(value: str) -> bool:
    try:
        return "T" in value and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def problems(document: object) -> tuple[str, ...]:
    """Where *document* departs from the schema, as ``path: rule``. Values are not quoted: they may be personal."""
    found = sorted(_validator().iter_errors(document), key=lambda error: list(map(str, error.absolute_path)))
    return tuple(f"{'.'.join(map(str, error.absolute_path)) or '(root)'}: {error.validator}" for error in found)
