"""The decorator: one call of the function is one request."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from groundwatch.handle import IDLE, Request
from groundwatch.quiet import note_internal_error, quiet, tell_once

F = TypeVar("F", bound=Callable[..., Any])
Opener = Callable[..., Request]

QUERY_NAMES = ("query", "question", "q", "prompt", "message", "user_input")


class _Arguments:
    """Where the query, session and user stand among a function's arguments, found once."""

    def __init__(
        self, function: Callable[..., Any], query: str | None, session: str | None, user: str | None
    ) -> None:
        names = _parameters(function)
        chosen = query or next((name for name in QUERY_NAMES if name in names), None)
        self._places = {
            role: (name, names.index(name))
            for role, name in (("query", chosen), ("session", session), ("user", user))
            if name in names
        }
        for name in (query, session, user):
            if name and name not in names:
                tell_once(
                    f"traced:{name}", "groundwatch: @traced names the parameter %r, which the function lacks", name
                )

    def pick(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        picked = {"query": None}
        for role, (name, index) in self._places.items():
            picked[role] = args[index] if index < len(args) else kwargs.get(name)
        return picked


def _parameters(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


def trace(
    function: F, opener: Opener, *, query: str | None, session: str | None, user: str | None, name: str | None
) -> F:
    """Wrap *function*, keeping its kind: sync, async, generator or async generator."""
    arguments = _Arguments(function, query, session, user)

    def start(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Request:
        try:
            return opener(name=name, **arguments.pick(args, kwargs))
        except Exception as error:
            note_internal_error("traced", error)
            return IDLE

    if inspect.isasyncgenfunction(function):
        return cast("F", _async_generator(function, start))
    if inspect.isgeneratorfunction(function):
        return cast("F", _generator(function, start))
    if inspect.iscoroutinefunction(function):
        return cast("F", _coroutine(function, start))
    return cast("F", _plain(function, start))


@quiet
def _note_result(request: Request, result: Any) -> None:
    """A returned text is the answer, unless the function recorded one itself."""
    if isinstance(result, str) and request._record.answer is None:
        request.answer(result)


def _plain(function: Callable[..., Any], start: Callable[..., Request]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with start(args, kwargs) as request:
            result = function(*args, **kwargs)
            _note_result(request, result)
            return result

    return call


def _coroutine(function: Callable[..., Any], start: Callable[..., Request]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with start(args, kwargs) as request:
            result = await function(*args, **kwargs)
            _note_result(request, result)
            return result

    return call


def _generator(function: Callable[..., Any], start: Callable[..., Request]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        stream = start(args, kwargs)._through(function(*args, **kwargs), None, None, whole=True)
        try:
            return (yield from stream)
        finally:
            stream.close()

    return call


def _async_generator(function: Callable[..., Any], start: Callable[..., Request]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        stream: Any = start(args, kwargs)._through(function(*args, **kwargs), None, None, whole=True)
        advance = stream.asend(None)
        try:
            while True:
                try:
                    chunk = await advance
                except StopAsyncIteration:
                    return
                try:
                    advance = stream.asend((yield chunk))
                except GeneratorExit:
                    raise
                except BaseException as error:
                    advance = stream.athrow(error)
        finally:
            await stream.aclose()

    return call
