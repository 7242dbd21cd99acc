"""One question to an OpenAI-compatible endpoint, whatever dialect it speaks; every trouble becomes a reason."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import openai

from groundwatch_scorer.address_guard import EndpointRefused
from groundwatch_scorer.llm_budget import MinuteBudget
from groundwatch_scorer.llm_reply import SCHEMA, SCHEMA_NAME

Message = Mapping[str, str]

log = logging.getLogger(__name__)

_MOST_BYTES = 2 * 1024 * 1024  # of a reply; a judgement is a few kilobytes
_MOST_STEPS = 6  # form twice, seed, temperature, max_tokens, and the call that is accepted
_FAILURES_TO_PAUSE = 3
_LONGEST_PAUSE_SECONDS = 300.0
_LONGEST_RETRY_AFTER_SECONDS = 10.0  # an endpoint that asks for more is left alone for this trace

_BY_STATUS = {
    400: "bad_request",
    401: "not_authorised",
    403: "not_authorised",
    404: "not_found",
    408: "timeout",
    413: "bad_request",
    422: "bad_request",
    429: "rate_limited",
}
_PAUSING = frozenset({"timeout", "unreachable", "server_error", "rate_limited", "not_authorised", "endpoint_refused"})


_MAY_PASS = frozenset({"unreachable", "server_error", "rate_limited"})
"""Tried again after a moment. Not a timeout: it has cost its time, and perhaps money, already."""


class Unanswered(Exception):
    """No usable reply; ``reason`` is from the closed set of docs/llm-judge.md. Holds no text of the trace."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    input_tokens: int
    output_tokens: int
    cut: bool  # the model ran out of tokens
    retried: bool = False  # it took more than one try


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What the endpoint is known to accept. Starts at everything; steps down when a parameter is refused."""

    form: int = 0  # 0 json_schema, 1 json_object, 2 plain text
    temperature: bool = True
    seed: bool = True
    tokens_name: str = "max_tokens"


class Chat:
    """Asks one model, remembers what its endpoint accepts, and leaves it alone for a while when it is down.

    For several threads. Every request that goes out takes a place in *minute*; *retries* are made here and not by
    the client, so that none goes uncounted. *jitter* gives numbers in [0, 1).
    """

    def __init__(
        self,
        client: openai.OpenAI,
        model: str,
        *,
        timeout_seconds: float,
        pause_seconds: float,
        minute: MinuteBudget,
        retries: int,
        sleep: Callable[[float], None],
        jitter: Callable[[], float],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._client = client.with_options(max_retries=0)
        self._model = model
        self._timeout = timeout_seconds
        self._first_pause = pause_seconds
        self._minute = minute
        self._retries = retries
        self._sleep = sleep
        self._jitter = jitter
        self._clock = clock
        self._dialect = _Dialect()
        self._lock = threading.Lock()  # of what follows
        self._failures = 0
        self._paused_until = 0.0

    def ask(self, system: str, messages: Sequence[Message], input_tokens: int, max_tokens: int) -> Reply:
        """Return the model's reply, or raise :class:`Unanswered`. *input_tokens*: an estimate of what is sent."""
        for attempt in range(self._retries + 1):
            if self._clock() < self._paused_until:
                raise Unanswered("endpoint_paused")
            try:
                reply = self._ask(system, messages, input_tokens, max_tokens)
            except Unanswered as trouble:
                wait = _retry_after(trouble) or 0.5 * 2**attempt * (1 + self._jitter())
                last = attempt == self._retries or wait > _LONGEST_RETRY_AFTER_SECONDS
                if last or trouble.reason not in _MAY_PASS:
                    self._count(trouble.reason)
                    raise
                self._sleep(wait)
            else:
                self._answered()
                return replace(reply, retried=attempt > 0)
        raise AssertionError  # the last attempt returns or raises

    def _ask(self, system: str, messages: Sequence[Message], input_tokens: int, max_tokens: int) -> Reply:
        dialect = self._dialect
        for _ in range(_MOST_STEPS):
            place = self._minute.wait(input_tokens + max_tokens)
            if place is None:
                raise Unanswered("over_rate")
            try:
                body = self._send(dialect, system, messages, max_tokens)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                simpler = _simpler(dialect, f"{error.message} {error.param} {error.body}".lower())
                if simpler is None:
                    break
                dialect = simpler
            except (openai.APIError, EndpointRefused, OSError) as error:
                raise Unanswered(_reason(error)) from error
            else:
                self._dialect = dialect  # only what has worked is remembered
                reply = _reply(body)
                place.tokens = (reply.input_tokens + reply.output_tokens) or place.tokens
                return reply
        raise Unanswered("bad_request")

    def _send(self, dialect: _Dialect, system: str, messages: Sequence[Message], max_tokens: int) -> bytes:
        if dialect.form > 0:
            system = f"{system}\nThe JSON Schema of the reply:\n{json.dumps(SCHEMA)}\n"
        parameters: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "system", "content": system}, *messages],
            dialect.tokens_name: max_tokens,
            "timeout": self._timeout,
        }
        if dialect.temperature:
            parameters["temperature"] = 0
        if dialect.seed:
            parameters["seed"] = 1
        if dialect.form == 0:
            schema = {"name": SCHEMA_NAME, "strict": True, "schema": SCHEMA}
            parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif dialect.form == 1:
            parameters["response_format"] = {"type": "json_object"}
        # Streamed as bytes, because the client's own timeout is per read: a reply that drips would hold us for ever.
        with self._client.chat.completions.with_streaming_response.create(**parameters) as response:
            return self._read(response.iter_bytes())

    def _read(self, parts: Iterator[bytes]) -> bytes:
        deadline = self._clock() + self._timeout
        body = bytearray()
        while True:
            try:
                part = next(parts, None)
            except Exception as error:  # the HTTP library's own errors: which library, the openai package decides
                reason = "timeout" if type(error).__name__.endswith("Timeout") else "unreachable"
                raise Unanswered(reason) from error
            if part is None:
                return bytes(body)
            body += part
            if len(body) > _MOST_BYTES:
                raise Unanswered("bad_reply")
            if self._clock() > deadline:
                raise Unanswered("timeout")

    def _answered(self) -> None:
        with self._lock:
            was_away, self._failures = self._failures >= _FAILURES_TO_PAUSE, 0
        if was_away:
            log.info("judge model %s answers again", self._model)

    def _count(self, reason: str) -> None:
        """Three failures of the endpoint in a row open a pause, twice as long after each further one."""
        with self._lock:
            if reason not in _PAUSING:
                self._failures = 0
                return
            self._failures += 1
            if self._failures == _FAILURES_TO_PAUSE:
                log.warning(
                    "judge model %s gives no verdicts (%s) and is tried again with pauses", self._model, reason
                )
            if self._failures >= _FAILURES_TO_PAUSE:
                pause = self._first_pause * 2 ** (self._failures - _FAILURES_TO_PAUSE)
                self._paused_until = self._clock() + min(_LONGEST_PAUSE_SECONDS, pause)


def _retry_after(trouble: Unanswered) -> float | None:
    """How long the endpoint asks to wait, in seconds, where it says so in a number."""
    error = trouble.__cause__
    if not isinstance(error, openai.APIStatusError):
        return None
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            wait = float(error.response.headers.get(name, "")) * scale
        except ValueError:  # absent, or a date: then our own back-off
            continue
        return wait if 0 <= wait < float("inf") else None
    return None


def _simpler(dialect: _Dialect, message: str) -> _Dialect | None:
    """The next thing to leave out: the parameter that the message names, else one step of the form."""
    if "seed" in message and dialect.seed:
        return replace(dialect, seed=False)
    if "temperature" in message and dialect.temperature:
        return replace(dialect, temperature=False)
    if "max_completion_tokens" in message and dialect.tokens_name == "max_tokens":
        return replace(dialect, tokens_name="max_completion_tokens")
    return replace(dialect, form=dialect.form + 1) if dialect.form < 2 else None


def _reason(error: Exception) -> str:
    # Whether the client wraps what the guard of the endpoint raises depends on its version.
    if isinstance(error, EndpointRefused) or isinstance(error.__cause__, EndpointRefused):
        return "endpoint_refused"
    if isinstance(error, openai.APITimeoutError):
        return "timeout"
    if isinstance(error, (openai.APIConnectionError, OSError)):
        return "unreachable"
    if isinstance(error, openai.APIStatusError):
        if error.status_code in _BY_STATUS:
            return _BY_STATUS[error.status_code]
        return "server_error" if error.status_code >= 500 else "endpoint_refused"  # a redirect, or another 4xx
    return "bad_reply"


def _reply(body: bytes) -> Reply:
    """Read the parts that are needed, believing none of their types."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise Unanswered("bad_reply") from None
    choice = _first(_get(document, "choices"))
    message = _get(choice, "message")
    text = _get(message, "content")
    finish = _get(choice, "finish_reason")
    if finish == "content_filter" or (not text and _get(message, "refusal")):
        raise Unanswered("model_refused")
    if not isinstance(text, str):
        raise Unanswered("bad_reply")
    usage = _get(document, "usage")
    return Reply(
        text, _count_of(usage, "prompt_tokens"), _count_of(usage, "completion_tokens"), cut=finish == "length"
    )


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def _count_of(usage: Any, key: str) -> int:
    value = _get(usage, key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
