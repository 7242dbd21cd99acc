"""Users, passwords, sessions and the bound on guessing. What is stored is tested on both databases."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, select

from groundwatch_review import accounts, passwords, saved_views
from groundwatch_review.accounts import Role, Unacceptable
from groundwatch_review.console.login_limits import TRIES, WINDOW_SECONDS, LoginLimits
from groundwatch_review.console.sessions import SESSIONS_OF_ONE_USER, Lifetime, Sessions
from groundwatch_review.passwords import COST, Cost, Unfit
from groundwatch_review.saved_views import SavedView
from groundwatch_review.tables import console_sessions, console_users

NOW = 1_790_000_000.0
CHEAP = Cost(n=2**4, r=8, p=1)  # the same code in no time
GOOD = "correct horse battery"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def add(engine: Engine, name: str, *roles: str, password: str = GOOD, **options: Any) -> accounts.User:
    return accounts.add(engine, name, roles or ("admin",), password, NOW, cost=CHEAP, **options)


# Passwords


def test_a_password_is_kept_as_salted_scrypt_of_a_stated_cost():
    one, other = passwords.hashed(GOOD), passwords.hashed(GOOD)
    assert one.startswith("scrypt$32768$8$3$")
    assert one != other  # the salt is random
    assert GOOD not in one
    assert passwords.matches(GOOD, one)
    assert not passwords.matches(GOOD + "x", one)


def test_the_cost_is_one_that_owasp_names():
    """Pairs of N and p for r = 8 on its password storage page, which it calls equal in strength."""
    assert (COST.n, COST.r, COST.p) in {(2**17, 8, 1), (2**16, 8, 2), (2**15, 8, 3), (2**14, 8, 5), (2**13, 8, 10)}


def test_what_was_hashed_at_an_older_cost_still_matches():
    assert passwords.matches(GOOD, passwords.hashed(GOOD, CHEAP))


def test_the_same_letters_of_another_keyboard_are_the_same_password():
    composed, decomposed = "caf\u00e9-caf\u00e9-caf\u00e9", "cafe\u0301-cafe\u0301-cafe\u0301"
    assert passwords.matches(decomposed, passwords.hashed(composed, CHEAP))


@pytest.mark.parametrize(
    "kept", ["", "scrypt", "scrypt$16$8$1$!$!", "md5$16$8$1$AAAA$AAAA", "scrypt$3$8$1$AAAA$AAAA", GOOD]
)
def test_a_damaged_record_matches_nothing(kept):
    assert not passwords.matches(GOOD, kept)


@pytest.mark.parametrize("password", ["", "short", "x" * 257, "aaaaaaaaaaaaaaaa", "anna.schmidt1"])
def test_a_password_that_is_easily_guessed_is_refused_with_what_is_accepted(password):
    with pytest.raises(Unfit, match="accepted"):
        passwords.check_fit(password, "anna.schmidt")


# Users


def test_a_user_is_checked_by_name_and_password(engine):
    user = add(engine, "anna", "admin", "reviewer")
    assert user.roles == (Role.REVIEWER, Role.ADMIN)
    assert accounts.check(engine, "anna", GOOD, CHEAP) == (user, user.user_id)
    assert accounts.check(engine, "anna", "wrong horse battery", CHEAP) == (None, user.user_id)
    assert accounts.check(engine, "nobody", GOOD, CHEAP) == (None, "")
    assert accounts.check(engine, "anna", "x" * 10_000, CHEAP) == (None, user.user_id)


def test_the_database_holds_no_password(engine):
    add(engine, "anna")
    with engine.connect() as connection:
        assert GOOD not in str(connection.execute(select(console_users)).all())


def test_records_carry_a_random_identifier_and_not_the_name(engine):
    ids = {add(engine, name).user_id for name in ("anna", "bo")}
    assert len(ids) == 2
    assert all(user_id.startswith("rv_") and "anna" not in user_id for user_id in ids)


@pytest.mark.parametrize(
    ("name", "roles", "said"),
    [
        ("Anna", ["admin"], "small letters"),
        ("anna\u0430", ["admin"], "small letters"),  # a Cyrillic a
        ("", ["admin"], "small letters"),
        ("-x", ["admin"], "letter or digit"),
        ("a" * 65, ["admin"], "up to 64"),
        ("bo", ["owner"], "'owner'; accepted: viewer, reviewer, exporter, admin"),
        ("bo", [], "no role; accepted"),
        ("anna", ["viewer"], "already"),
    ],
)
def test_what_cannot_be_a_user_is_refused_with_what_is_accepted(engine, name, roles, said):
    add(engine, "anna")
    with pytest.raises(Unacceptable, match=said):
        accounts.add(engine, name, roles, GOOD, NOW, cost=CHEAP)


def test_somebody_can_always_make_users(engine):
    with pytest.raises(Unacceptable, match="first user has to be an admin"):
        add(engine, "vi", "viewer")
    add(engine, "anna", "admin")
    add(engine, "vi", "viewer")
    with pytest.raises(Unacceptable, match="last admin"):
        accounts.change(engine, "anna", NOW, roles=["viewer"])
    with pytest.raises(Unacceptable, match="last admin"):
        accounts.remove(engine, "anna")
    with engine.connect() as connection:
        assert [(u.name, u.roles) for u in accounts.listed(connection)] == [
            ("anna", (Role.ADMIN,)),
            ("vi", (Role.VIEWER,)),
        ]
    accounts.change(engine, "vi", NOW, roles=["admin"])
    accounts.remove(engine, "anna")


def test_names_that_do_not_exist_take_as_long_as_wrong_passwords(engine):
    """Medians of the real work; without the same hash for both the difference would be a factor of hundreds."""
    cost = Cost(n=2**13, r=8, p=1)
    accounts.add(engine, "anna", ["admin"], GOOD, NOW, cost=cost)

    def median(name: str) -> float:
        taken = []
        for _round in range(7):
            started = time.thread_time()
            accounts.check(engine, name, "wrong horse battery", cost)
            taken.append(time.thread_time() - started)
        return statistics.median(taken)

    assert 0.5 < median("nobody") / median("anna") < 2


# Sessions


def sessions_of(engine: Engine, clock: Clock, **lifetime: float) -> Sessions:
    return Sessions(engine, clock, Lifetime(**lifetime))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_session_is_found_by_its_token_only_and_the_database_holds_no_token(engine, clock):
    user = add(engine, "anna")
    sessions = sessions_of(engine, clock)
    token = sessions.open(user)
    assert sessions.user_of(token) == user
    for other in ("", token[:-1], token + "x", "é"):
        assert sessions.user_of(other) is None
    with engine.connect() as connection:
        assert token not in str(connection.execute(select(console_sessions)).all())


def test_a_session_ends_when_it_is_not_used(engine, clock):
    sessions = sessions_of(engine, clock)
    token = sessions.open(add(engine, "anna"))
    for _half_hour in range(6):
        clock.now += 1800
        assert sessions.user_of(token) is not None  # used every half hour
    clock.now += 3600
    assert sessions.user_of(token) is None


def test_a_session_ends_after_its_longest_time_however_much_it_is_used(engine, clock):
    sessions = sessions_of(engine, clock)
    token = sessions.open(add(engine, "anna"))
    for _half_hour in range(23):
        clock.now += 1800
        assert sessions.user_of(token) is not None
    clock.now += 1800
    assert sessions.user_of(token) is None


def ended(engine: Engine, sessions: Sessions, user: accounts.User) -> dict[str, Callable[[], Any]]:
    return {
        "password": lambda: accounts.change(engine, user.name, NOW, password="another horse battery", cost=CHEAP),
        "roles": lambda: accounts.change(engine, user.name, NOW, roles=["viewer"]),
        "removed": lambda: accounts.remove(engine, user.name),
    }


def test_a_change_of_the_user_ends_every_session(engine, clock):
    add(engine, "root")
    sessions = sessions_of(engine, clock)
    for number, what in enumerate(("password", "roles", "removed")):
        user = add(engine, f"user{number}", "reviewer")
        tokens = [sessions.open(user), sessions.open(user)]
        ended(engine, sessions, user)[what]()
        assert [sessions.user_of(token) for token in tokens] == [None, None], what


def test_logging_in_again_ends_the_session_that_the_browser_had(engine, clock):
    user = add(engine, "anna")
    sessions = sessions_of(engine, clock)
    first = sessions.open(user)
    second = sessions.open(user, replaced=first)
    assert first != second
    assert sessions.user_of(first) is None
    assert sessions.user_of(second) == user
    sessions.end(second)
    assert sessions.user_of(second) is None


def test_sessions_are_bounded_and_old_ones_are_removed(engine, clock):
    user = add(engine, "anna")
    sessions = sessions_of(engine, clock)
    tokens = []
    for _login in range(SESSIONS_OF_ONE_USER + 3):
        clock.now += 1
        tokens.append(sessions.open(user))
    assert [sessions.user_of(token) is not None for token in tokens] == [False] * 3 + [True] * SESSIONS_OF_ONE_USER
    clock.now += 50_000
    sessions.open(user)
    with engine.connect() as connection:
        assert len(connection.execute(select(console_sessions)).all()) == 1


# The bound on guessing


def test_guesses_are_bounded_and_waiting_ends(clock):
    limits = LoginLimits(clock)
    assert [limits.take("anna", "10.0.0.1") for _try in range(TRIES["pair"])] == [0.0] * TRIES["pair"]
    assert limits.take("anna", "10.0.0.1") == WINDOW_SECONDS
    assert limits.take("anna", "10.0.0.2") == 0.0  # nobody locks her out from one place
    assert limits.take("bo", "10.0.0.1") == 0.0
    clock.now += WINDOW_SECONDS - 10
    assert limits.take("anna", "10.0.0.1") == 10
    clock.now += 10
    assert limits.take("anna", "10.0.0.1") == 0.0


def test_many_places_cannot_guess_at_one_name_nor_one_place_at_many_names(clock):
    limits = LoginLimits(clock)
    by_name = [limits.take("anna", f"10.0.0.{n}") for n in range(TRIES["name"] + 5)]
    assert [bool(wait) for wait in by_name] == [False] * TRIES["name"] + [True] * 5
    limits = LoginLimits(clock)
    by_address = [limits.take(f"user{n}", "10.0.0.1") for n in range(TRIES["address"] + 5)]
    assert [bool(wait) for wait in by_address] == [False] * TRIES["address"] + [True] * 5


def test_a_right_password_does_not_use_up_the_tries(clock):
    limits = LoginLimits(clock)
    for _login in range(100):
        assert limits.take("anna", "10.0.0.1") == 0.0
        limits.forgive("anna", "10.0.0.1")


def test_what_is_counted_is_bounded_and_beyond_it_newcomers_share_their_tries(clock):
    limits = LoginLimits(clock, keys_limit=30)
    waits = [limits.take(f"user{n}", f"10.0.0.{n}") for n in range(60)]
    assert len(limits._counts) <= 30 + 3
    assert not any(waits[:10])
    assert waits[-1] > 0  # fails closed
    clock.now += WINDOW_SECONDS
    assert limits.take("somebody", "10.1.1.1") == 0.0


@pytest.mark.parametrize("act", ["add", "change", "remove"])
def test_what_cannot_be_written_down_is_not_done(engine: Engine, act: str):
    class NoTrailError(Exception):
        pass

    def fail(_connection: Connection, _user: accounts.User) -> None:
        raise NoTrailError

    add(engine, "anna")
    add(engine, "vi", "viewer")
    with engine.connect() as connection:
        before = accounts.listed(connection)
    acts = {
        "add": lambda: add(engine, "ed", "viewer", note=fail),
        "change": lambda: accounts.change(engine, "vi", NOW, roles=["exporter"], note=fail),
        "remove": lambda: accounts.remove(engine, "vi", note=fail),
    }
    with pytest.raises(NoTrailError):
        acts[act]()
    with engine.connect() as connection:
        assert accounts.listed(connection) == before


def test_with_a_user_go_the_own_views_and_the_shared_ones_stay(engine):
    anna = add(engine, "anna")
    for number, name in enumerate(("mine", "ours", "mine")):  # the last in place of the first
        view = SavedView(f"sv_{number:016x}", anna.user_id, name, "app=a", name == "ours")
        saved_views.save(engine, view, NOW)
    with engine.connect() as connection:
        assert [view.name for view in saved_views.seen_by(connection, anna.user_id)] == ["mine", "ours"]
        assert [view.name for view in saved_views.seen_by(connection, "rv_other")] == ["ours"]
    accounts.remove(engine, "anna", even_the_last=True)
    with engine.connect() as connection:
        assert [view.name for view in saved_views.seen_by(connection, anna.user_id)] == ["ours"]


@pytest.mark.parametrize(
    "new_database", [pytest.param("postgresql", marks=pytest.mark.service("postgresql"))], indirect=True
)
def test_a_view_that_is_saved_twice_at_the_same_moment_is_one(engine, monkeypatch):
    """On SQLite one waits for the other."""
    first, second = (SavedView(f"sv_{n}", "rv_1", "failed", query, False) for n, query in ((1, "a=1"), (2, "a=2")))
    check = saved_views._check_room

    def meanwhile(*what):
        monkeypatch.setattr(saved_views, "_check_room", check)
        saved_views.save(engine, first, NOW)

    monkeypatch.setattr(saved_views, "_check_room", meanwhile)
    assert saved_views.save(engine, second, NOW) == "sv_1"
    with engine.connect() as connection:
        assert [view.query for view in saved_views.seen_by(connection, "rv_1")] == ["a=2"]
