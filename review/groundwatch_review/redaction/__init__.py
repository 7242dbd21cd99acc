"""Take structured personal data and secrets out of a text or a candidate; fail closed.

Names are found by their context, by lists and, with the extra ``ner``, by models. None of these finds every name,
so a person has to read the result.
"""

from __future__ import annotations

from groundwatch_review.redaction.detectors import DETECTORS, active
from groundwatch_review.redaction.document import RedactionResult, redact_candidate
from groundwatch_review.redaction.engine import POLICY_VERSION, RedactionLimits
from groundwatch_review.redaction.evaluate import evaluate, evaluate_file, redact_file
from groundwatch_review.redaction.placeholders import Scope
from groundwatch_review.redaction.text import TextResult, redact_text
from groundwatch_review.redaction.unlisted_names import doubtful_words

__all__ = [
    "DETECTORS",
    "POLICY_VERSION",
    "RedactionLimits",
    "RedactionResult",
    "Scope",
    "TextResult",
    "active",
    "doubtful_words",
    "evaluate",
    "evaluate_file",
    "redact_candidate",
    "redact_file",
    "redact_text",
]
