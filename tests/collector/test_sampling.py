"""Who is chosen is a matter of the trace's id and the salt alone, with the chance that is written down."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwatch_collector import sampling
from groundwatch_collector.decision import DEFAULT_RATES, DecideConfig, Decider
from groundwatch_collector.sampling import RateTable
from groundwatch_collector.strata import STRATA

SALT = b"a salt for tests"
SEQUENTIAL = [f"{number:032x}" for number in range(40_000)]


@pytest.mark.parametrize("probability", [0.01, 0.1, 0.5])
def test_sequential_ids_are_chosen_as_often_as_promised(probability):
    """Within four standard errors of a binomial count, over ids fixed above."""
    chosen = sum(sampling.included(sampling.u56(trace_id, SALT), probability) for trace_id in SEQUENTIAL)
    expected = probability * len(SEQUENTIAL)
    assert abs(chosen - expected) < 4 * math.sqrt(expected * (1 - probability))


def test_random_numbers_of_sequential_ids_are_uniform():
    """Chi-squared over 64 cells stays below the 1 - 1e-4 quantile (63 degrees of freedom: 112.3)."""
    cells = [0] * 64
    for trace_id in SEQUENTIAL:
        cells[sampling.u56(trace_id, SALT) >> 50] += 1
    expected = len(SEQUENTIAL) / 64
    assert sum((count - expected) ** 2 / expected for count in cells) < 112.3


def test_another_salt_chooses_others():
    def chosen(salt: bytes) -> set[str]:
        return {trace_id for trace_id in SEQUENTIAL if sampling.included(sampling.u56(trace_id, salt), 0.1)}

    both = len(chosen(SALT) & chosen(b"another"))
    assert abs(both - 400) < 4 * math.sqrt(400)  # independent: 0.1 * 0.1 of 40,000


def test_a_lower_rate_chooses_a_subset():
    numbers = [sampling.u56(trace_id, SALT) for trace_id in SEQUENTIAL[:2000]]
    assert all(sampling.included(n, 0.2) for n in numbers if sampling.included(n, 0.05))


@given(st.floats(min_value=0.0, max_value=1.0, exclude_min=True))
def test_the_threshold_is_the_probability_to_the_last_bit(probability):
    from fractions import Fraction

    exact = Fraction(probability) * 2**56
    assert sampling.threshold(probability) == math.ceil(exact)
    assert 1 <= sampling.threshold(probability) <= 2**56


def test_certainty_includes_the_largest_number():
    assert sampling.included(2**56 - 1, 1.0)


@pytest.mark.parametrize("probability", [0.0, -0.1, 1.0000001, math.nan, math.inf])
def test_what_is_no_probability_has_no_threshold(probability):
    with pytest.raises(ValueError, match="above 0 and up to 1"):
        sampling.threshold(probability)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normal_b9": 0.1}, "unknown stratum 'normal_b9'.*did you mean 'normal_b"),
        ({"refusals": 0.1}, "did you mean 'refusal'"),
        ({"refusal": 0.0}, "rates.refusal: found 0.0"),
        ({"refusal": 1.5}, "rates.refusal: found 1.5"),
        ({"refusal": True}, "rates.refusal: found True"),
        ({"refusal": math.nan}, "rates.refusal: found nan"),
    ],
)
def test_a_rate_table_that_would_lie_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        RateTable("e", {**DEFAULT_RATES, **change}, 1)


def test_every_stratum_needs_a_rate():
    rates = {name: rate for name, rate in DEFAULT_RATES.items() if name != "cancelled"}
    with pytest.raises(ValueError, match="no rate for cancelled"):
        RateTable("e", rates, 1)


def test_the_default_rates_cover_the_strata():
    assert tuple(DEFAULT_RATES) == STRATA


def test_an_epoch_is_named_after_what_is_in_it():
    config = DecideConfig()
    same = DecideConfig(rates=dict(reversed(list(DEFAULT_RATES.items()))))
    others = [
        dataclasses.replace(config, cut_1=0.3),
        dataclasses.replace(config, salt_version=2),
        dataclasses.replace(config, rates={**DEFAULT_RATES, "refusal": 0.5}),
    ]
    assert config.rate_table().epoch == same.rate_table().epoch
    assert len({config.rate_table().epoch, *(other.rate_table().epoch for other in others)}) == 4


@pytest.mark.parametrize("salt", [b"", b"x" * 65])
def test_a_salt_that_cannot_key_the_hash_is_refused(salt):
    with pytest.raises(ValueError, match="1 to 64"):
        Decider(DecideConfig(), salt)


@pytest.mark.parametrize(
    "changes",
    [{"cut_1": 0.9}, {"cut_3": 1.0}, {"cuts_version": ""}, {"bucket_seconds": 0}, {"max_age_seconds": -1.0}],
)
def test_a_configuration_that_makes_no_sense_is_refused(changes):
    with pytest.raises(ValueError, match="found"):
        DecideConfig(**changes)


@pytest.mark.parametrize(
    ("state", "count"),
    [
        ("", 1.0),
        ("ot=th:0", 1.0),
        ("ot=th:8", 2.0),
        ("ot=th:c", 4.0),
        ("ot=th:fd70a3d70a3d71", 100.0),
        ("vendor=a,ot=rv:abc;th:8", 2.0),
        ("vendor=th:8", 1.0),
        ("ot=th:", None),
        ("ot=th:xyz", None),
        ("ot=th:123456789012345", None),
        (";;,,=ot", 1.0),
    ],
)
def test_upstream_head_sampling_is_read_from_the_trace_state(state, count):
    found = sampling.adjusted_count(state)
    assert found == (None if count is None else pytest.approx(count))


@given(st.text(max_size=60))
def test_a_trace_state_of_any_text_is_survived(state):
    found = sampling.adjusted_count(state)
    assert found is None or found >= 1
