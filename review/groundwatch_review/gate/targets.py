"""Three ways to ask the application: over HTTP, as a command, as a Python function."""

from __future__ import annotations

import http.client
import importlib
import json
import shlex
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Protocol

Request = Mapping[str, Any]
"""``{"question", "history", "item_id", "extra_documents"}``; the last only while a noise curve is drawn."""

_MOST_BYTES = 16 * 1024 * 1024  # of one reply


class NotAsked(Exception):
    """One try came to nothing. ``reason``: timeout, unreachable, http_error, crashed or bad_reply."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class BadTarget(ValueError):
    """The target cannot be used at all; the message says what is accepted."""


class Target(Protocol):
    """Asks once. Raises :class:`NotAsked`. Called from several threads."""

    def ask(self, request: Request, timeout_seconds: float) -> object: ...


class HttpTarget:
    """POSTs the request as JSON and reads a JSON object."""

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadTarget(f"{url!r} is no address; expected http:// or https://")
        self._url = url

    def ask(self, request: Request, timeout_seconds: float) -> object:
        posted = urllib.request.Request(  # noqa: S310 - the scheme is checked above
            self._url, json.dumps(dict(request)).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(posted, timeout=timeout_seconds) as answer:  # noqa: S310
                return _json(answer.read(_MOST_BYTES + 1))
        except urllib.error.HTTPError as error:
            raise NotAsked("http_error", f"HTTP {error.code}") from error
        except TimeoutError as error:
            raise NotAsked("timeout", f"no reply within {timeout_seconds:g} s") from error
        except http.client.HTTPException as error:  # cut off in the middle, or no HTTP at all
            raise NotAsked("bad_reply", type(error).__name__) from error
        except (OSError, ValueError) as error:
            raise _unreachable(error, timeout_seconds) from error


def _unreachable(error: Exception, timeout_seconds: float) -> NotAsked:
    if isinstance(getattr(error, "reason", None), TimeoutError):
        return NotAsked("timeout", f"no connection within {timeout_seconds:g} s")
    cause = getattr(error, "reason", error)
    return NotAsked("unreachable", f"no connection ({type(cause).__name__})")


class CommandTarget:
    """Runs a command for each question: the request on its standard input, the reply on its standard output."""

    def __init__(self, command: str) -> None:
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise BadTarget(f"the command cannot be read: {error}") from error
        if not self._arguments:
            raise BadTarget("the command is empty")

    def ask(self, request: Request, timeout_seconds: float) -> object:
        try:
            done = subprocess.run(  # noqa: S603 - the user's own command, without a shell
                self._arguments,
                input=json.dumps(dict(request)).encode(),
                capture_output=True,
                timeout=timeout_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise NotAsked("timeout", f"the command was stopped after {timeout_seconds:g} s") from error
        except OSError as error:
            raise NotAsked("unreachable", f"the command does not start: {type(error).__name__}") from error
        if done.returncode:
            raise NotAsked("crashed", f"the command ended with {done.returncode}")
        return _json(done.stdout)


class PythonTarget:
    """Calls ``module:function`` with the request. A call that is late is left behind in its thread."""

    def __init__(self, name: str) -> None:
        module, _colon, function = name.partition(":")
        try:
            self._function: Callable[[dict[str, Any]], object] = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError, ValueError) as error:
            raise BadTarget(
                f"{name!r} cannot be loaded ({type(error).__name__}); expected module:function"
            ) from error

    def ask(self, request: Request, timeout_seconds: float) -> object:
        box: list[object] = []
        failed: list[BaseException] = []

        def call() -> None:
            try:
                box.append(self._function(dict(request)))
            except Exception as error:  # the application's own errors are what is being counted
                failed.append(error)

        thread = threading.Thread(target=call, daemon=True, name="gate-ask")
        thread.start()
        thread.join(timeout_seconds)
        if failed:
            raise NotAsked("crashed", type(failed[0]).__name__)
        if not box:
            raise NotAsked("timeout", f"no reply within {timeout_seconds:g} s")
        return box[0]


def _json(body: bytes) -> object:
    if len(body) > _MOST_BYTES:
        raise NotAsked("bad_reply", f"the reply is larger than {_MOST_BYTES} bytes")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:  # nested deeper than Python reads
        raise NotAsked("bad_reply", "the reply is not JSON") from error
