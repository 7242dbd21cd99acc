"""What a data directory or a database that cannot be used says to the person who started the command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError, OperationalError

from groundwatch_collector.spanlog import LogError
from groundwatch_deploy.cli import Failed
from groundwatch_deploy.config import ServerConfig
from groundwatch_deploy.migrations import NewerSchema

_ADVICE = {
    "locked": "another process holds it; stop that one, or wait",
    "not a database": "it is damaged; move it away, and the next start builds a new one from the span log",
    "malformed": "it is damaged; move it away, and the next start builds a new one from the span log",
    "no such table": "start `groundwatch serve` on it once",
}


def in_words(error: Exception) -> str:
    """What to say of *error* where no command has explained it; "" for what is a fault of ours."""
    if isinstance(error, OperationalError):
        return f"database: {_said_by_the_driver(error)}"
    return str(error) if isinstance(error, NewerSchema) else ""


def _said_by_the_driver(error: DBAPIError) -> str:
    """The driver's words, not the statement: its parameters may be text of a trace."""
    cause = str(error.orig).strip().partition("\n")[0]
    return cause + next((f"; {text}" for word, text in _ADVICE.items() if word in cause), "")


@contextlib.contextmanager
def explained(server: ServerConfig) -> Iterator[None]:
    """Turn the errors of the disk, the span log and the database into :class:`Failed` with one clear line."""
    try:
        yield
    except LogError as error:
        raise Failed(f"{server.data_directory / 'spanlog'}: {error}") from error
    except NewerSchema as error:
        raise Failed(str(error)) from error
    except DBAPIError as error:
        raise Failed(f"database {make_url(server.url)}: {_said_by_the_driver(error)}") from error
    except OSError as error:
        raise Failed(f"{error.filename or server.data_directory}: {error.strerror or error}") from error
