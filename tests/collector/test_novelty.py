"""New kinds of question: bounded in memory, in cost and in share of traffic, and the same in every process."""

from __future__ import annotations

import dataclasses
import json
import logging
import random
import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from groundwatch import names
from groundwatch_collector import novelty_store, question_features, tables
from groundwatch_collector.decision import DEFAULT_RATES, DecideConfig
from groundwatch_collector.novelty import AppNovelty, Novelty, NoveltySettings, Sight

QUICK = NoveltySettings(budget=0.1, warm_up=100, hits=3, seconds=3600.0, leaders=64, apps=2, burst=10)
KNOWN_QUESTIONS = (
    "how do I reset my password",
    "where can I download the invoice of last month",
    "怎么重置登录密码",
    "上传文件的大小限制是多少",
    "which regions can store our data",
)
NEW_QUESTION = "does the mobile application run on tablets"


def known(number: int) -> str:
    return KNOWN_QUESTIONS[number % len(KNOWN_QUESTIONS)]


def warm(chosen: NoveltySettings = QUICK) -> AppNovelty:
    memory = AppNovelty(chosen)
    for number in range(chosen.warm_up):
        assert not memory.see(known(number), 0.0).novel
    return memory


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How large is 50 MB?", "how LARGE is 7 mb"),
        ("ＡＢＣ plan limits", "abc plan limits"),
        ("Wie groß?", "wie gross"),
        ("上传限制是多少？", "上传限制是多少"),
    ],
)
def test_case_width_punctuation_and_numbers_make_no_difference(one, other):
    assert question_features.keys(one) == question_features.keys(other)


def test_a_word_brings_its_pieces_and_chinese_its_pairs():
    assert len(question_features.keys("retention")) == 1 + 6
    assert len(question_features.keys("the")) == 1
    assert len(question_features.keys("保留期限")) == 4 + 3


@given(st.text(max_size=3000))
@settings(max_examples=200, deadline=None)
def test_any_text_gives_a_bounded_number_of_valid_keys(text):
    found = question_features.keys(text)
    assert len(found) <= question_features.MAX_FEATURES
    assert len(set(found)) == len(found)
    assert all(0 <= key < question_features.KEYS for key in found)


@given(st.lists(st.text(max_size=200) | st.text("ab \u0000\ud800密码", max_size=2000), max_size=30))
@settings(max_examples=40, deadline=None)
def test_hostile_questions_are_survived_and_bounded(questions):
    memory = AppNovelty(NoveltySettings(warm_up=5, leaders=8))
    for text in questions:
        sight = memory.see(text, 0.0)
        assert -1.0000001 <= sight.nearness <= 1.0000001
    assert memory.leaders <= 8
    novelty_store.unpack(novelty_store.pack(memory), QUICK)


def test_a_new_kind_is_new_until_it_was_asked_often_enough():
    memory = warm()
    first, *later = [memory.see(NEW_QUESTION, 0.0).novel for _ in range(6)]
    assert (first, later) == (True, [True, True, False, False, False])


def test_a_new_kind_is_new_until_it_is_old():
    memory = warm()
    assert memory.see(NEW_QUESTION, 0.0).novel
    assert not memory.see(NEW_QUESTION, 3601.0).novel


def test_a_new_kind_is_noticed_at_first_sight_in_both_languages_and_the_known_is_not():
    memory = warm()
    sight = memory.see(NEW_QUESTION, 0.0)
    assert sight == Sight(novel=True, first=True, nearness=sight.nearness)
    assert sight.nearness < 0.3
    assert memory.see("发票抬头写错了能重开吗", 0.0).first
    assert not memory.see("How do I reset the password?", 0.0).first
    assert not memory.see("请问怎么重置登录密码？", 0.0).first


def test_nothing_is_new_before_enough_was_seen():
    memory = AppNovelty(QUICK)
    sights = [memory.see(f"{word} {word}ish topic", 0.0) for word in ("alpha", "bravo", "charlie", "delta")]
    assert all(sight.first for sight in sights)
    assert not any(sight.novel for sight in sights)
    assert not memory.see("alpha alphaish topic", 0.0).novel


def test_a_question_without_letters_is_not_new():
    memory = warm()
    before = memory.state()
    assert not memory.see("?!? ...", 0.0).novel
    assert memory.state() == before


def noise(rng: random.Random) -> str:
    return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz   ", k=60))


@given(st.integers(0, 2**32), st.floats(0.0, 1.0))
@settings(max_examples=10, deadline=None)
def test_the_budget_is_a_bound_whatever_is_sent(seed, share):
    """Never more than the burst plus the budget's share of all questions, also of pure noise."""
    rng = random.Random(seed)
    memory = warm()
    questions = [noise(rng) if rng.random() < share else known(n) for n in range(400)]
    sights = [memory.see(text, 0.0) for text in questions]
    assert sum(sight.novel for sight in sights) <= QUICK.burst + QUICK.budget * (QUICK.warm_up + len(questions))
    assert share < 0.9 or any(sight.over_budget for sight in sights)


def test_the_threshold_follows_the_budget_that_is_left():
    """Noise lowers it; nothing new lets it rise again, and then a kind that is still new is called so."""
    memory = warm()
    at_first, rng = memory.threshold, random.Random(1)
    for _ in range(100):
        memory.see(noise(rng), 0.0)
    lowered = memory.threshold
    for number in range(400):
        memory.see(known(number), 0.0)
    assert lowered < 0.2 * at_first
    assert memory.threshold == pytest.approx(at_first)


def test_with_a_scarce_budget_only_the_farthest_are_called_new():
    rng = random.Random(7)
    memory = warm(dataclasses.replace(QUICK, nearness=0.9, burst=30, leaders=1000))
    mixed = [f"{known(n)[: rng.randrange(30)]} {noise(rng)[: rng.randrange(10, 30)]}" for n in range(400)]
    first = [sight for sight in (memory.see(text, 0.0) for text in mixed) if sight.first][100:]
    called = [sight.nearness for sight in first if sight.novel]
    held_back = [sight.nearness for sight in first if not sight.novel]
    assert called
    assert held_back
    assert sum(called) / len(called) < sum(held_back) / len(held_back)


def test_looking_learns_nothing():
    memory = warm()
    before = (memory.questions, memory.leaders, memory.threshold)
    assert memory.nearness(known(0)) > 0.99
    assert memory.nearness(NEW_QUESTION) < 0.3
    assert memory.nearness("?!") == 0.0
    assert (memory.questions, memory.leaders, memory.threshold) == before


def test_the_kind_not_asked_for_longest_is_forgotten():
    memory = warm(dataclasses.replace(QUICK, leaders=8))
    rng = random.Random(2)
    for number in range(40):
        memory.see(known(0), 0.0)
        memory.see(noise(rng), float(number))
    assert memory.leaders == 8
    assert not memory.see(known(0), 0.0).first
    assert memory.see(known(2), 0.0).first  # forgotten meanwhile


STREAM = """
import json, sys
from groundwatch_collector.novelty import AppNovelty, NoveltySettings
memory = AppNovelty(NoveltySettings(warm_up=20))
print(json.dumps([[s.novel, s.nearness] for s in (memory.see(t, n) for n, t in enumerate(json.load(sys.stdin)))]))
"""


def test_the_same_stream_in_another_process_gives_the_same_labels():
    rng = random.Random(4)
    questions = [noise(rng) if rng.random() < 0.2 else known(rng.randrange(9)) for _ in range(150)]
    runs = [
        subprocess.run(
            [sys.executable, "-c", STREAM],
            input=json.dumps(questions),
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert any(novel for novel, _ in json.loads(runs[0]))


def test_a_restored_memory_goes_on_exactly():
    rng = random.Random(5)
    memory = warm()
    for _ in range(60):
        memory.see(noise(rng), 1.0)
    copy = novelty_store.unpack(novelty_store.pack(memory), QUICK)
    rest = [noise(rng) if rng.random() < 0.5 else known(rng.randrange(9)) for _ in range(80)]
    assert [memory.see(text, 2.0) for text in rest] == [copy.see(text, 2.0) for text in rest]
    assert memory.state() == copy.state()


def test_the_state_holds_no_text():
    memory = warm()
    memory.see("my name is Waldemar Quibble", 0.0)
    numbers = json.dumps(memory.state())
    assert "Waldemar" not in numbers
    assert "quib" not in numbers


@pytest.mark.parametrize(
    "change",
    [
        {"version": 99},
        {"frequencies": [0.0]},
        {"frequencies": [-1.0] * question_features.DIMENSIONS},
        {"leaders": [[1, 0.0, 0.1, True, 1.0, [question_features.KEYS]]]},
        {"leaders": [[1, 0.0, 0.1, True, 0.0, [1]]]},
        {"leaders": [[1]]},
        {"questions": None},
    ],
)
def test_a_state_that_cannot_be_is_refused(change):
    state = {**warm().state(), **change}
    with pytest.raises((ValueError, KeyError, TypeError)):
        AppNovelty.restore(QUICK, state)


@pytest.mark.parametrize(
    "changes",
    [
        {"budget": 0.0},
        {"budget": 0.6},
        {"hits": 0},
        {"nearness": 1.0},
        {"leaders": 0},
        {"warm_up": -1},
        {"seconds": -1.0},
    ],
)
def test_settings_that_make_no_sense_are_refused(changes):
    with pytest.raises(ValueError, match="accepted"):
        NoveltySettings(**changes)


def test_each_application_has_its_own_kinds_and_new_names_push_nobody_out():
    memory = Novelty(QUICK)
    for number in range(120):
        memory.see("a", known(number), 0.0)
        memory.see("b", NEW_QUESTION, 0.0)
    sight = memory.see("a", NEW_QUESTION, 1.0)
    assert sight is not None
    assert sight.novel
    assert memory.see("c", NEW_QUESTION, 1.0) is None  # two are active, no third has a memory
    assert memory.see("c", NEW_QUESTION, 4000.0) is not None  # one was silent for an hour
    assert memory.app("b") is None


def test_a_question_is_sorted_in_within_a_millisecond():
    """With a full memory. The median, so that a busy machine does not decide it; measured: a tenth of the bound."""
    rng = random.Random(6)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9))) for _ in range(1500)]
    memory = AppNovelty(NoveltySettings(warm_up=1300))
    for _ in range(1300):
        memory.see(" ".join(rng.sample(words, 10)), 0.0)
    times = []
    for _ in range(200):
        text = " ".join(rng.sample(words, 10))
        started = time.perf_counter()
        memory.see(text, 0.0)
        times.append(time.perf_counter() - started)
    assert memory.leaders > 900
    assert sorted(times)[100] < 0.003


# In the pipeline.


def everything_judged(**changes: Any) -> DecideConfig:
    rates = dict.fromkeys(DEFAULT_RATES, 1.0)
    return DecideConfig(position_interval_seconds=0.0, rates=rates, novel_warm_up=6, **changes)


def ask(world: Any, make: Any, number: int, question: str) -> None:
    world.send(*make.request(number, start=world.time, root={names.QUERY: question}))
    world.settle(5)


def test_a_new_kind_is_a_stratum_of_its_own_and_a_restart_does_not_make_everything_new(world, make):
    world.start(everything_judged(novel_save_seconds=0.0))
    for number in range(1, 8):
        ask(world, make, number, known(0))
    ask(world, make, 8, NEW_QUESTION)
    world.start()  # as after a kill: nothing but the database is left
    ask(world, make, 9, NEW_QUESTION)
    ask(world, make, 10, known(0))
    strata = [world.ledger()[make.trace_id(number)].stratum for number in (7, 8, 9, 10)]
    assert strata == ["normal_b0", "novel", "novel", "normal_b0"]
    assert world.value("groundwatch_novel_leaders", app="shop") == 2


def test_a_label_is_not_learnt_twice_when_the_database_fails(world, make, monkeypatch):
    world.start(everything_judged(novel_hits=1))
    for number in range(1, 8):
        ask(world, make, number, known(0))
    world.send(*make.request(8, start=world.time, root={names.QUERY: NEW_QUESTION}))
    world.time += 5
    with world.engine.begin() as connection:
        tables.traffic_tally.drop(connection)
    for _ in range(3):
        with pytest.raises(Exception, match="traffic_tally"):
            world.pipeline.step(0)
    with world.engine.begin() as connection:
        tables.traffic_tally.create(connection)
    world.settle()
    assert world.ledger()[make.trace_id(8)].stratum == "novel"  # a second sight would not have been


def test_a_memory_that_cannot_be_read_warms_up_again(world, make, caplog):
    world.start(everything_judged(novel_save_seconds=0.0))
    for number in range(1, 8):
        ask(world, make, number, known(0))
    with world.engine.begin() as connection:
        connection.execute(update(tables.novelty_state).values(state=b"broken"))
    with caplog.at_level(logging.WARNING):
        world.start()
    ask(world, make, 8, NEW_QUESTION)
    assert world.ledger()[make.trace_id(8)].stratum == "normal_b0"
    assert "warms up again" in caplog.text


def test_a_configuration_older_than_the_stratum_stays_good(caplog):
    rates = {name: rate for name, rate in DEFAULT_RATES.items() if name != "novel"}
    with caplog.at_level(logging.INFO):
        config = DecideConfig(rates=rates)
    assert config.rates["novel"] == DEFAULT_RATES["novel"]
    assert "no rate for the stratum novel" in caplog.text


def test_a_budget_of_nothing_switches_it_off(world, make):
    world.start(everything_judged(novel_budget=0.0))
    for number in range(1, 8):
        ask(world, make, number, known(0))
    ask(world, make, 8, NEW_QUESTION)
    assert world.ledger()[make.trace_id(8)].stratum == "normal_b0"
    assert world.rows(tables.novelty_state) == []
