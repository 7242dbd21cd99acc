"""`groundwatch user`: who may log in to the console, and as what."""

from __future__ import annotations

import argparse
import dataclasses
import getpass
import sys
from typing import Any

from sqlalchemy import Connection

from groundwatch_collector.storage import reader
from groundwatch_deploy.cli import Misused, emit
from groundwatch_deploy.desk_database import Desk, opened
from groundwatch_review import accounts, passwords
from groundwatch_review.accounts import Unacceptable, User
from groundwatch_review.audit import Action
from groundwatch_review.passwords import Unfit


def add(arguments: argparse.Namespace) -> int:
    """Make a user with a random password, which is shown once, or with the one given on the standard input."""
    with opened(arguments) as desk:
        password = _password(arguments)
        try:
            user = accounts.add(
                desk.engine,
                arguments.name,
                arguments.role,
                password,
                desk.now(),
                holdout=arguments.holdout,
                note=lambda connection, user: desk.note(connection, Action.USER_ADDED, user, ",".join(user.roles)),
            )
        except (Unacceptable, Unfit) as error:
            raise Misused(str(error)) from error
    _say(user, arguments, password)
    return 0


def listed(arguments: argparse.Namespace) -> int:
    with opened(arguments) as desk, reader(desk.engine).connect() as connection:
        users = accounts.listed(connection)
    emit([_as_dict(user) for user in users], arguments.json, lambda: _table(users))
    return 0


def change(arguments: argparse.Namespace) -> int:
    """Give other roles or the grant of the hold-out set; the user's sessions end."""
    if not arguments.role and arguments.holdout is None:
        raise Misused("user change: give --role, --holdout or --no-holdout")
    with opened(arguments) as desk:
        user = _changed(desk, arguments.name, roles=arguments.role or None, holdout=arguments.holdout)
    _say(user, arguments)
    return 0


def password(arguments: argparse.Namespace) -> int:
    """Give another password; the user's sessions end."""
    with opened(arguments) as desk:
        given = _password(arguments)
        user = _changed(desk, arguments.name, password=given)
    _say(user, arguments, given)
    return 0


def remove(arguments: argparse.Namespace) -> int:
    """Remove a user; records keep the identifier."""
    with opened(arguments) as desk:
        try:
            user = accounts.remove(
                desk.engine,
                arguments.name,
                even_the_last=arguments.last,
                note=lambda connection, user: desk.note(connection, Action.USER_REMOVED, user),
            )
        except Unacceptable as error:
            raise Misused(f"{error}; or say --last") from error
        with reader(desk.engine).connect() as connection:
            left = accounts.exist(connection)
    text = f"{user.name} is removed; records keep {user.user_id}"
    if not left:
        text += (
            "\nThere is no user left: on a loopback address nobody is asked for a password, elsewhere nobody comes in"
        )
    emit({"removed": user.name, "user_id": user.user_id, "users_left": left}, arguments.json, lambda: text)
    return 0


def _changed(desk: Desk, name: str, **changes: Any) -> User:
    def note(connection: Connection, user: User) -> None:
        roles = f"{','.join(user.roles)}{' holdout' if user.holdout else ''}"
        desk.note(connection, Action.USER_CHANGED, user, "password" if "password" in changes else roles)

    try:
        return accounts.change(desk.engine, name, desk.now(), note=note, **changes)
    except (Unacceptable, Unfit) as error:
        raise Misused(str(error)) from error


def _password(arguments: argparse.Namespace) -> str:
    """Never from the command line: every user of the machine can read that."""
    if not arguments.password_stdin:
        return passwords.new_password()
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    first = getpass.getpass("password: ")
    if getpass.getpass("again: ") != first:
        raise Misused("the password and its repetition differ")
    return first


def _say(user: User, arguments: argparse.Namespace, given: str = "") -> None:
    made = given if given and not arguments.password_stdin else ""
    text = (
        f"{user.name}: {', '.join(user.roles)}{', hold-out set' if user.holdout else ''}; in records {user.user_id}"
    )
    if made:
        text = f"{made}\n\nThat is the password of {text}\nIt is not kept anywhere and not shown again."
    emit({**_as_dict(user), **({"password": made} if made else {})}, arguments.json, lambda: text)


def _as_dict(user: User) -> dict[str, Any]:
    return {**dataclasses.asdict(user), "roles": list(user.roles)}


def _table(users: list[User]) -> str:
    if not users:
        return "no users: on a loopback address nobody is asked for a password, elsewhere nobody comes in"
    width = max(len(user.name) for user in users)
    return "\n".join(
        f"{user.name:<{width}}  {user.user_id}  {', '.join(user.roles)}{', hold-out set' if user.holdout else ''}"
        for user in users
    )
