"""Rates planned under a budget: arithmetic that must hold for any traffic and any verdicts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwatch_collector import rates
from groundwatch_collector.rates import Budget, Known, StratumInputs, Traffic, Verdicts

NAMES = ("error_timeout", "feedback_neg", "refusal", "normal_b0", "normal_b1")
MIDNIGHT = 1_780_012_800
EPOCH = 300

counts = st.floats(0, 1e7, allow_nan=False)


@st.composite
def a_stratum(draw: st.DrawFn) -> StratumInputs:
    judged = draw(st.floats(0, 1e5))
    remaining = draw(counts)
    return StratumInputs(remaining, remaining + draw(counts), judged, judged * draw(st.floats(0, 1)))


strata_of_any_kind = st.fixed_dictionaries({name: a_stratum() for name in NAMES})
budgets = st.floats(1e-3, 1e6)


@given(strata_of_any_kind, st.floats(-1e6, 1e6), budgets, st.floats(0.01, 1))
def test_every_rate_is_a_chance_and_the_promise_is_within_the_budget(strata, left, daily, share):
    found = rates.allocate(strata, left, daily, share)
    assert set(found.rates) == set(NAMES)
    assert all(0 < rate <= 1 for rate in found.rates.values())
    traffic = sum(s.remaining for s in strata.values())
    nominal = min(1.0, daily / max(1.0, sum(s.a_day for s in strata.values())))
    allowed = max(left, rates.STARVED * nominal * traffic)  # spent or overspent: a tenth goes on
    assert found.expected <= allowed * (1 + 1e-9) + 1e-9


@given(strata_of_any_kind, budgets, st.floats(0, 1e6), st.floats(0, 1e6))
def test_more_budget_never_lowers_a_rate(strata, daily, left, more):
    less = rates.allocate(strata, left, daily)
    greater = rates.allocate(strata, left + more, daily)
    for name in NAMES:
        assert greater.rates[name] >= less.rates[name] * (1 - 1e-6)


@given(strata_of_any_kind, budgets, st.floats(0, 1e6))
def test_no_stratum_is_silent(strata, daily, left):
    """The floor of 0.3 of the average rate holds wherever the budget covers the floors of all."""
    found = rates.allocate(strata, left, daily)
    for rate in found.rates.values():
        assert rate >= rates.FLOOR * found.average * found.floors_scaled * (1 - 1e-9)


@given(strata_of_any_kind, budgets, st.floats(0, 1e6), st.floats(0.05, 0.5))
def test_complaints_never_get_more_than_their_share(strata, daily, left, share):
    found = rates.allocate(strata, left, daily, share)
    traffic = sum(s.remaining for s in strata.values())
    promised = found.rates[rates.FEEDBACK] * strata[rates.FEEDBACK].remaining
    floor = rates.STARVED * rates.FLOOR * found.average * strata[rates.FEEDBACK].remaining
    assert promised <= max(share * found.average * traffic, floor) * (1 + 1e-9)


def a_day(**failures: float) -> dict[str, StratumInputs]:
    sizes = {"error_timeout": 500, "feedback_neg": 300, "refusal": 700, "normal_b0": 20_000, "normal_b1": 8_500}
    return {n: StratumInputs(size, size, 400, 400 * failures.get(n, 0.5)) for n, size in sizes.items()}


def test_rates_follow_the_spread_of_the_verdicts():
    strata = a_day(normal_b0=0.01, normal_b1=0.10, refusal=0.40, feedback_neg=0.70)
    found = rates.allocate(strata, 300, 300).rates
    assert found["normal_b0"] < found["normal_b1"] < found["feedback_neg"] < found["refusal"]
    for one, other in (("normal_b1", "refusal"), ("feedback_neg", "refusal")):
        assert found[one] / found[other] == pytest.approx(strata[one].spread / strata[other].spread)


def test_the_whole_budget_is_used_where_traffic_allows_it():
    assert rates.allocate(a_day(normal_b0=0.01), 300, 300).expected == pytest.approx(300)


def test_a_small_application_is_judged_whole():
    strata = {name: StratumInputs(10, 10) for name in NAMES}
    found = rates.allocate(strata, 300, 300)
    assert all(found.rates[name] == 1.0 for name in NAMES if name not in rates.NO_QUALITY)


def test_failed_executions_get_the_floor_only():
    found = rates.allocate(a_day(), 300, 300)
    assert found.rates["error_timeout"] == pytest.approx(rates.FLOOR * found.average)


def test_what_is_left_at_the_end_of_a_day_is_not_thrown_at_its_last_minutes():
    strata = {name: StratumInputs(s.a_day / 1000, s.a_day) for name, s in a_day().items()}
    found = rates.allocate(strata, 200, 300)
    assert found.average == pytest.approx(rates.PACE * 300 / 30_000)


def test_a_spent_budget_leaves_a_tenth():
    found = rates.allocate(a_day(), -5, 300)
    assert found.average == pytest.approx(0.1 * 300 / 30_000)
    assert found.expected == pytest.approx(30, rel=0.01)


@pytest.mark.parametrize(
    ("budget", "price", "judged", "set_by"),
    [
        (Budget(300), None, 300, "traces"),
        (Budget(300, 1.0), 0.01, 100, "money"),
        (Budget(300, 10.0), 0.01, 300, "traces"),
        (Budget(300, 1.0), None, 300, "traces_price_unknown"),
        (Budget(0, 1.0), 0.01, 100, "money"),
        (Budget(300, 1.0), 0.0, 300, "traces"),
    ],
)
def test_the_tighter_budget_holds_and_an_unknown_price_is_said(budget, price, judged, set_by):
    assert budget.judged(price) == (pytest.approx(judged), set_by)


@pytest.mark.parametrize(("budget", "price"), [(Budget(0, 1.0), None), (Budget(0, 1.0), 0.0), (Budget(), None)])
def test_a_budget_that_bounds_nothing_is_refused(budget, price):
    with pytest.raises(ValueError, match="budget"):
        budget.judged(price)


def test_nothing_to_plan_for_is_refused():
    with pytest.raises(ValueError, match="no strata"):
        rates.allocate({}, 300, 300)
    with pytest.raises(ValueError, match="daily budget"):
        rates.allocate(a_day(), 300, 0)


def test_a_verdict_counts_half_after_a_week():
    old, new = Verdicts(0.0, "refusal", 100, 40), Verdicts(7.0 * rates.DAY, "refusal", 10, 1)
    assert rates.decayed([old, new], 7.0 * rates.DAY)["refusal"] == pytest.approx((60, 21))


def flat(until: int, epochs: int, each: float) -> Traffic:
    return Traffic(until, {until - EPOCH * (n + 1): {"normal_b0": each} for n in range(epochs)})


def test_without_traffic_the_configured_expectation_holds():
    assert rates.forecast(Traffic(MIDNIGHT), MIDNIGHT, MIDNIGHT + rates.DAY / 2, 1000) == 500


def test_without_a_yesterday_the_recent_rate_goes_on():
    known = flat(MIDNIGHT, 6, 10)  # half an hour at 10 in 5 minutes
    assert rates.forecast(known, MIDNIGHT, MIDNIGHT + 3600, 1e9) == pytest.approx(120)


def test_yesterday_scaled_by_today():
    wave = {MIDNIGHT - EPOCH * (n + 1): {"normal_b0": 10.0 if n < 12 else 5.0} for n in range(400)}
    tomorrow = rates.forecast(Traffic(MIDNIGHT, wave), MIDNIGHT, MIDNIGHT + rates.DAY, 0)
    ratio = (120 + 20) / (60 + 20)
    assert tomorrow == pytest.approx((276 * 5 + 12 * 10) * ratio)


def test_shares_are_never_zero_and_add_up():
    known = flat(MIDNIGHT, 50, 100)
    found = rates.shares(known, NAMES)
    assert sum(found.values()) == pytest.approx(1)
    assert min(found.values()) > 0
    assert found["normal_b0"] > 0.99


def known(**changes: object) -> Known:
    values = {
        "start": MIDNIGHT + 3600,
        "traffic": flat(MIDNIGHT + 3300, 400, 100.0),
        "verdicts": {"refusal": (50.0, 20.0)},
        "sampled_today": 12.0,
        "in_flight": 1.0,
        "budget": 300.0,
    }
    return Known(**{**values, **changes})  # type: ignore[arg-type]


def test_the_same_input_gives_the_same_plan_whatever_the_order():
    shuffled = dict(reversed(list(known().traffic.epochs.items())))
    again = known(traffic=Traffic(known().traffic.until, shuffled))
    assert rates.plan(known(), NAMES) == rates.plan(again, NAMES)


def test_a_plan_says_what_it_rests_on():
    why = rates.plan(known(), NAMES).why
    assert (why["left"], why["budget_per_day"], why["budget_set_by"]) == (287, 300, "traces")
    assert why["traffic_a_day"] == pytest.approx(28_800, rel=0.01)
    assert 0 < why["chosen_share"] < 0.02


def test_a_first_day_that_begins_late_is_not_given_the_whole_budget_at_once():
    late = MIDNIGHT + rates.DAY - 600
    first = rates.plan(known(start=late, traffic=flat(late - 300, 3, 100.0), sampled_today=0.0, in_flight=0.0), NAMES)
    assert first.why["average_rate"] == pytest.approx(rates.PACE * 300 / 28_800, rel=0.01)


@given(st.floats(1, 1e6), st.floats(0, 1e4), st.integers(0, 287))
def test_any_plan_of_any_epoch_is_a_table_of_chances(each, spent, epoch):
    start = MIDNIGHT + epoch * EPOCH
    made = rates.plan(known(start=start, traffic=flat(start - EPOCH, 300, each), sampled_today=spent), NAMES)
    assert all(0 < rate <= 1 and math.isfinite(rate) for rate in made.rates.values())
