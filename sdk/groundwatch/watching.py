"""What the one-liners for frameworks share: a request around a call, and how to read inputs, answers and prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from groundwatch import documents as docs
from groundwatch.client import request
from groundwatch.handle import Request
from groundwatch.values import text_of

_QUESTIONS = ("question", "query", "input", "q", "query_str", "prompt", "text", "user_input", "messages")
_ANSWERS = ("answer", "result", "output", "response", "text", "content", "replies", "messages")
_MAX_DEPTH = 4

Query = str | Callable[[Any], Any] | None  # a key of the input, or a function of it


class Watched:
    """Something of a framework whose calls are requests. Everything else is the watched object's own."""

    def __init__(self, watched: Any, query: Query, name: str | None, session: str | None) -> None:
        self._watched = watched
        self._query = query
        self._name = name
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._watched, name)

    def _open(self, given: Any) -> tuple[Request, str | None]:
        """A request for the input of one call, and the question in it."""
        try:
            question = self._question(given)
        except Exception:  # the host's own function; the call itself goes on
            question = None
        return request(question, name=self._name, session=self._session), question

    def _question(self, given: Any) -> str | None:
        return question_in(given, self._query)


def question_in(given: Any, query: Query = None) -> str | None:
    """The question inside the input of a chain, an engine or a pipeline."""
    if callable(query):
        return text_of(query(given))
    if query is not None and isinstance(given, Mapping):
        return text_of(given.get(query))
    return _found(given, _QUESTIONS, 0)


def answer_in(given: Any) -> str | None:
    return _found(given, _ANSWERS, 0)


def _found(given: Any, keys: Iterable[str], depth: int) -> str | None:
    if isinstance(given, (list, tuple)):  # messages: the last one
        return _found(given[-1], keys, depth + 1) if given and depth < _MAX_DEPTH else None
    if not isinstance(given, Mapping):
        return text_of(given)
    if depth >= _MAX_DEPTH:
        return None
    for key in keys:
        if given.get(key) is not None and (found := _found(given[key], keys, depth + 1)):
            return found
    nested = (value for value in given.values() if isinstance(value, Mapping))
    return next((found for value in nested if (found := _found(value, keys, depth + 1))), None)


def shown_in(prompt: str, documents: Iterable[Any]) -> list[Any]:
    """Of *documents* those whose text stands in *prompt*, in the order of the prompt."""
    placed: dict[int, Any] = {}
    for document in documents:
        text = _fields(document).text
        if isinstance(text, str) and text and (place := prompt.find(text)) >= 0:
            placed.setdefault(place, document)
    return [placed[place] for place in sorted(placed)]


def names_of(documents: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Ids, or texts where there are none, with scores: whether two lists are the same."""
    fields = map(_fields, documents)
    return [(found.id if found.id is not None else found.text, found.score) for found in fields]


def _fields(document: Any) -> docs.Fields:
    return docs.read(docs._copy(document))
