"""The HTTP side of the OTLP exporter, watched. Imported only when spans are to be sent: it loads ``requests``."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import requests
from requests.adapters import HTTPAdapter

_PLAIN_HEADERS = frozenset(
    ("content-type", "content-length", "content-encoding", "user-agent", "accept", "accept-encoding", "connection")
)


class Unanswered(Exception):
    """The receiver answered with something else than 2xx."""


class WatchedAdapter(HTTPAdapter):
    """Sees each answer before the exporter does.

    The exporter takes a redirect for success, waits out a 503 on its own and keeps the reason of a failure to
    itself. It also adds the headers of ``OTEL_EXPORTER_OTLP_*_HEADERS``, which may be keys meant for another
    receiver; they are taken out again.
    """

    def __init__(
        self, headers: Collection[str], answered: Callable[[int, str | None], None], failed: Callable[[str], None]
    ) -> None:
        super().__init__()
        self._allowed = _PLAIN_HEADERS | set(headers)
        self._answered = answered
        self._failed = failed

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        for name in [name for name in request.headers if name.lower() not in self._allowed]:
            del request.headers[name]
        try:
            response = super().send(request, *args, **kwargs)
        except requests.RequestException as error:
            self._failed(_problem(error))
            raise
        if not 200 <= response.status_code < 300:
            self._answered(response.status_code, response.headers.get("retry-after"))
            response.close()
            raise Unanswered(f"HTTP {response.status_code}")
        return response


def _problem(error: requests.RequestException) -> str:
    """Name the class of problem; the error's own text holds the address."""
    if isinstance(error, requests.Timeout):
        return "timeout"
    if isinstance(error, requests.exceptions.SSLError):
        return "TLS failure"
    text = str(error).lower()
    known = (("refused", "connection refused"), ("resolve", "host name not found"), ("reset", "connection reset"))
    return next((problem for sign, problem in known if sign in text), type(error).__name__)


def session(watched: WatchedAdapter) -> requests.Session:
    made = requests.Session()
    made.mount("http://", watched)
    made.mount("https://", watched)
    return made
