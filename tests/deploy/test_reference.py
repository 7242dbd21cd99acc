"""Every setting and every metric is documented, because the pages are written from the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from groundwatch_deploy import reference

DOCS = Path(__file__).resolve().parents[2] / "docs"
ADVICE = "the page is stale; run: python -m groundwatch_deploy.reference docs"


def test_the_configuration_page_is_current():
    assert (DOCS / "configuration.md").read_text(encoding="utf-8") == reference.configuration(), ADVICE


def test_the_metrics_page_is_current():
    assert (DOCS / "metrics.md").read_text(encoding="utf-8") == reference.metrics(reference.every_metric()), ADVICE


def test_metric_names_follow_the_two_prefixes_and_say_their_unit():
    for family, _labels in reference.every_metric():
        name = reference.exposed_name(family)
        assert name.startswith(("rag_", "groundwatch_")), name
        assert family.documentation.strip(), name
        assert not name.endswith(("_ratio", "_percent", "_ms")) or name == "rag_objective_fail_ratio", name


def test_a_setting_without_a_comment_is_found():
    with pytest.raises(LookupError, match="no comment says what nameless means"):
        reference.field_comments(Undocumented)


import dataclasses  # noqa: E402  (the class below is the test's subject and reads best beside it)


@dataclasses.dataclass
class Undocumented:
    told: int = 1  # what it is

    nameless: int = 2
