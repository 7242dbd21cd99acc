"""Strata of the user's own: read strictly, placed explicitly, and never unreachable."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundwatch import names
from groundwatch_collector import rules, strata
from groundwatch_collector.decision import DEFAULT_RATES, DecideConfig
from groundwatch_collector.ragtrace import Outcome, RagTrace
from groundwatch_collector.rules import RuleError
from groundwatch_collector.signals import Signals
from groundwatch_collector.strata import STRATA, Cuts, Facts

CUTS = Cuts("1", 0.32, 0.58, 0.77)


def trace(**changes: Any) -> RagTrace:
    plain = RagTrace(
        trace_id="1" * 32,
        app="shop",
        version="2.1",
        started_at=0.0,
        duration_seconds=1.0,
        outcome=Outcome.ANSWERED,
        outcome_source="recorded",
        query="How large may an upload be?",
        answer="Up to 50 MB.",
        model="large",
    )
    return dataclasses.replace(plain, **changes)


def stratum(*lines: str, novel: bool = False, **changes: Any) -> str:
    return strata.classify(trace(**changes), Signals(), CUTS, novel=novel, order=rules.order(lines, CUTS))


def listed(*lines: str) -> list[str]:
    return [entry.name for entry in rules.order(lines, CUTS)]


@pytest.mark.parametrize(
    ("condition", "changes", "expected"),
    [
        ("app = shop", {}, True),
        ("app = shop", {"app": "Shop"}, False),
        ("app != shop", {"app": "other"}, True),
        ("app in (shop, 'the other')", {"app": "the other"}, True),
        ("app not in (shop, other)", {}, False),
        ("version starts with 2.", {}, True),
        ("version starts with 2.", {"version": "12.0"}, False),
        ('model = "large"', {}, True),
        ("session starts with vip-", {"session": "vip-7"}, True),
        ('session = ""', {}, True),
        ("outcome in (partial, unknown)", {"outcome": Outcome.PARTIAL}, True),
        ("language = zh", {"query": "上传限制 of files"}, True),
        ("language = latin", {}, True),
        ("language = other", {"query": "какой размер"}, True),
        ("language = unknown", {"query": "123?"}, True),
        ("language = unknown", {"query": None}, True),
        ("latency >= 1", {}, True),
        ("latency > 1", {}, False),
        ("latency < 1.5 and latency > 0.5", {}, True),
        ("score < 0.2", {}, True),
        ("retries >= 2", {"retries": 2}, True),
        ("app = shop and latency > 5", {}, False),
    ],
)
def test_each_field_and_operator(condition, changes, expected):
    assert (stratum(f"mine before normal_b0: {condition}", **changes) == "mine") is expected


def test_a_rule_stands_where_it_says_and_rules_for_one_place_in_their_order():
    found = listed("one before novel: app = a", "two before novel: app = b", "zero before one: app = c")
    assert found[4:9] == ["refusal", "zero", "one", "two", "novel"]
    assert [name for name in found if name in STRATA] == list(STRATA)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_order_decides(order):
    """Three rules that all match: the first of the list gives the label, whichever it is."""
    lines = (
        "fast before normal_b0: latency < 9",
        "large before normal_b0: model = large",
        "s before normal_b0: app = shop",
    )
    shuffled = [lines[n] for n in order]
    assert stratum(*shuffled) == shuffled[0].split()[0]


def test_what_is_before_a_rule_goes_before_it():
    line = "mine before novel: app = shop"
    assert stratum(line, outcome=Outcome.ERROR) == "error_timeout"
    assert stratum(line, outcome=Outcome.REFUSED) == "refusal"
    assert stratum(line, novel=True) == "mine"
    assert stratum("mine before normal_b0: app = shop", novel=True) == "novel"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "accepted: NAME before STRATUM"),
        ("mine: app = a", "accepted: NAME before STRATUM"),
        ("Mine before novel: app = a", "not a name"),
        ("none before novel: app = a", "not a name"),
        ("__other__ before novel: app = a", "not a name"),
        ("a" * 33 + " before novel: app = a", "not a name"),
        ("refusal before novel: app = a", "the name is taken"),
        ("mine before nowhere: app = a", "no stratum 'nowhere'"),
        ("mine before novel:", "ends where a field is expected"),
        ("mine before novel: colour = red", "no field 'colour'; accepted: app, version"),
        ("mine before novel: trace_id = 1", "no field 'trace_id'"),
        ("mine before novel: u56 < 1", "no field 'u56'"),
        ("mine before novel: app ~ a", "no operator '~'"),
        ("mine before novel: app < a", "app: no operator '<'"),
        ("mine before novel: latency = 3", "latency: no operator '='"),
        ("mine before novel: latency > soon", "found 'soon', accepted: a number"),
        ("mine before novel: latency > nan", "accepted: a number"),
        ("mine before novel: app =", "ends where a value"),
        ("mine before novel: app = a or app = b", "found 'or', accepted: and"),
        ("mine before novel: app = a and", "ends where a field"),
        ("mine before novel: app in a", "accepted: ("),
        ("mine before novel: app in (a", "ends where , or )"),
        ("mine before novel: app in (a b)", "accepted: , or )"),
        ("mine before novel: app in ()", "where a value is expected"),
        ("mine before novel: app = 'open", "cannot read"),
        ("mine before novel: outcome = sad", "outcome: found 'sad', accepted: answered"),
        ("mine before novel: language = en", "language: found 'en', accepted: latin"),
        ("mine before novel: app = __import__('os')", "where|accepted"),
        ("mine before novel: latency > 5 and latency < 3", "exclude each other"),
        ("mine before novel: app = a and app = b", "exclude each other"),
        ("mine before novel: app = a and app starts with b", "exclude each other"),
        ("mine before novel: app starts with a and app starts with b", "exclude each other"),
        ("mine before novel: score > 1", "exclude each other"),
        ("mine before novel: latency < 0", "exclude each other"),
        ("mine before novel: app = " + "a" * 600, "characters"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_is_accepted(line, message):
    with pytest.raises(
        RuleError, match=message.replace("(", r"\(").replace(")", r"\)") if "|" not in message else message
    ):
        rules.order([line], CUTS)


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (["a before novel: app = x", "b before novel: app = x and latency > 3"], "rule b"),
        (["a before novel: app in (x, y)", "b before novel: app = y"], "rule b"),
        (["a before novel: latency > 2", "b before novel: latency >= 5"], "rule b"),
        (["a before novel: version starts with 2", "b before novel: version starts with 2.1"], "rule b"),
        (["a before novel: app != x", "b before novel: app = y"], "rule b"),
        (["a before novel: app != x", "b before novel: app starts with y"], "rule b"),
        (["a before novel: outcome = error"], "rule a"),
        (["a before novel: outcome in (error, timeout, cancelled, refused, no_result)"], "rule a"),
        (["z before novel: outcome = answered", "a before novel: outcome in (error, answered)"], "rule a"),
        (["a before normal_b1: score < 0.3"], "rule a"),
        (["a before normal_b2: score <= 0.5"], "rule a"),
        (["a before error_timeout: outcome in (error, timeout)"], "built-in stratum error_timeout"),
        (["a before normal_b0: score <= 1"], "built-in stratum normal_b0"),
        (["a before normal_b0: latency >= 0"], "built-in stratum normal_b0"),
        (["a before normal_b2: score < 0.8"], "built-in stratum normal_b2"),
        (["a before incomplete: language = zh", "b before incomplete: language != zh"], "incomplete"),
    ],
)
def test_what_can_never_be_reached_is_refused(lines, named):
    with pytest.raises(RuleError, match=f"{named}.*never be reached"):
        rules.order(lines, CUTS)


@pytest.mark.parametrize(
    "lines",
    [
        ["b before novel: app = x and latency > 3", "a before novel: app = x"],
        ["a before novel: version starts with 2.1", "b before novel: version starts with 2"],
        ["a before cancelled: outcome = cancelled and app = x"],
        ["a before novel: outcome in (error, answered)"],
        ["a before normal_b1: score <= 0.32"],
        ["a before novel: app = x", "b before novel: app != x and latency > 5"],
    ],
)
def test_what_can_be_reached_is_taken(lines):
    assert len(rules.order(lines, CUTS)) == len(STRATA) + len(lines)


def test_two_rules_of_one_name_are_refused():
    with pytest.raises(RuleError, match="rule a: the name is taken"):
        rules.order(["a before novel: app = x", "a before refusal: app = y"], CUTS)


def test_there_are_at_most_sixteen_strata():
    lines = [f"r{n} before novel: app = a{n}" for n in range(rules.MAX_STRATA - len(STRATA))]
    assert len(rules.order(lines, CUTS)) == 16
    with pytest.raises(RuleError, match="found 7, accepted: up to 6"):
        rules.order([*lines, "one_more before novel: app = z"], CUTS)


@given(st.text(max_size=120) | st.text("ab =<>!(),'\"andinot befor:novel.0", max_size=120))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(line):
    for text in (line, f"mine before novel: {line}"):
        with contextlib.suppress(RuleError):
            rules.order([text], CUTS)


CONDITIONS = st.one_of(
    st.builds("app {} {}".format, st.sampled_from(["=", "!=", "starts with"]), st.sampled_from(["a", "ab", "b"])),
    st.builds("outcome {} {}".format, st.sampled_from(["=", "!="]), st.sampled_from(sorted(rules.OUTCOMES))),
    st.builds("language {} {}".format, st.sampled_from(["=", "!="]), st.sampled_from(["zh", "latin", "other"])),
    st.builds("{} {} {}".format, st.sampled_from(["latency", "score"]), st.sampled_from(["<", "<=", ">", ">="]),
              st.sampled_from(["0", "0.32", "0.5", "0.77", "1"])),
)  # fmt: skip
LINES = st.lists(
    st.tuples(st.sampled_from(STRATA), st.lists(CONDITIONS, min_size=1, max_size=3)), min_size=1, max_size=3
)
QUERIES = {"zh": "上传", "latin": "upload", "other": "файл", "unknown": ""}
EVERY_TRACE = [
    Facts(
        trace(app=app, outcome=outcome, query=query, duration_seconds=latency, incomplete=incomplete),
        score,
        True,
        CUTS,
    )
    for app in ("a", "ab", "abc", "b", "c")
    for outcome in Outcome
    for query in QUERIES.values()
    for latency in (0.0, 0.32, 0.4, 0.5, 0.6, 1.0, 2.0)
    for score in (0.0, 0.2, 0.32, 0.4, 0.5, 0.6, 0.77, 0.9, 1.0)
    for incomplete in (False,)
]


@given(LINES)
@settings(max_examples=60, deadline=None)
def test_what_is_refused_as_unreachable_is_reached_by_no_trace(made):
    """The oracle tries every trace of a grid that has a point on and between all the values of the conditions."""
    lines = [f"r{n} before {before}: {' and '.join(parts)}" for n, (before, parts) in enumerate(made)]
    try:
        rules.order(lines, CUTS)
    except RuleError as error:
        refused = str(error)
        if "never be reached" not in refused:
            return
        name = refused.partition(":")[0].rpartition(" ")[2]
        places: list[Any] = list(strata.BUILT_IN)
        for rule in map(rules.parse, lines):
            places.insert([p.name for p in places].index(rule.before), rule)
        position = [p.name for p in places].index(name)
        # Lines before it that depend on more than the fields (refusals by text, new kinds) are left out: they
        # could only take more.
        before = [p for p in places[:position] if p.name not in ("incomplete", "feedback_neg", "novel")]
        reached = (f for f in EVERY_TRACE if places[position].matches(f) and not any(p.matches(f) for p in before))
        assert name in ("incomplete", "feedback_neg", "novel") or next(reached, None) is None


# In the configuration and the pipeline.


def test_each_rule_needs_a_rate_and_changes_the_epoch():
    lines = ("vip before novel: session starts with vip-",)
    rates = {**DEFAULT_RATES, "vip": 0.5}
    with pytest.raises(ValueError, match="no rate for vip"):
        DecideConfig(rules=lines)
    with pytest.raises(ValueError, match="unknown stratum 'vip'"):
        DecideConfig(rates=rates)
    made = DecideConfig(rules=lines, rates=rates)
    other = DecideConfig(rules=("vip before novel: session starts with v",), rates=rates)
    assert made.rate_table().probability("vip") == 0.5
    assert len({made.rate_table().epoch, other.rate_table().epoch, DecideConfig().rate_table().epoch}) == 3


def test_a_trace_gets_the_stratum_of_its_rule_and_its_chance(world, make):
    rates = {**dict.fromkeys(DEFAULT_RATES, 1e-9), "vip": 1.0}
    lines = ("vip before novel: session starts with vip- and language = latin",)
    world.start(DecideConfig(position_interval_seconds=0.0, rules=lines, rates=rates))
    world.send(*make.request(1, root={names.SESSION: "vip-1"}))
    world.send(*make.request(2, root={names.SESSION: "s-1"}))
    world.settle(5)
    rows = [world.ledger()[make.trace_id(n)] for n in (1, 2)]
    assert [(row.stratum, row.verdict) for row in rows] == [("vip", "sampled"), ("normal_b0", "not_sampled")]
