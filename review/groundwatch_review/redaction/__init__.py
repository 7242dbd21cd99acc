"""Take structured personal data and secrets out of a text or a candidate; fail closed.

Names are found by context only (see :mod:`groundwatch_review.redaction.names`), so a person has to read the result.
"""

from __future__ import annotations

from groundwatch_review.redaction.detectors import DETECTORS
from groundwatch_review.redaction.document import RedactionResult, redact_candidate
from groundwatch_review.redaction.engine import POLICY_VERSION, RedactionLimits
from groundwatch_review.redaction.evaluate import evaluate, evaluate_file, redact_file
from groundwatch_review.redaction.placeholders import Scope
from groundwatch_review.redaction.text import TextResult, redact_text

__all__ = [
    "DETECTORS",
    "POLICY_VERSION",
    "RedactionLimits",
    "RedactionResult",
    "Scope",
    "TextResult",
    "evaluate",
    "evaluate_file",
    "redact_candidate",
    "redact_file",
    "redact_text",
]
