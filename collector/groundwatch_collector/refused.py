"""What to do when the database refuses a transaction for what is in it, instead of being away for a while.

Trying the same again for ever would stop every trace behind it. Such a transaction is parted until the rows are found
that cannot be stored; they are written down as lost, with the reason, and the rest goes on. A fault of this program
that one trace brings out is handled in the same way, under a reason of its own.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError

REASON: Final = "refused_by_database"
OURS: Final = "internal_error"  # a fault of this program that one trace brings out: not to be told as the sender's
REASONS: Final = (REASON, OURS)
TRIES: Final = 3  # a race for the same row is over by then

_BENEATH: Final = ("sqlalchemy.", "psycopg.", "psycopg_", "sqlite3.")
_UNSTORABLE: Final = (OverflowError, ValueError)  # UnicodeError is a ValueError
# What a defect of this program raises. Other RuntimeErrors and MemoryError tell of the machine, and pass.
_DEFECTS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)


def is_refusal(error: Exception) -> bool:
    """Whether the same rows will fail again. A missing table or a full disk is not about the rows."""
    return reason(error) is not None


def reason(error: Exception) -> str | None:
    """Why the same rows would fail again: one of ``REASONS``; None when they need not."""
    if isinstance(error, DBAPIError):
        refused = isinstance(error, (DataError, IntegrityError)) and not error.connection_invalidated
        return REASON if refused else None
    if isinstance(error, StatementError):
        return REASON if isinstance(error.orig, _UNSTORABLE) else OURS
    # Drivers raise their own for numbers and texts that no column can hold, before the database has seen them.
    if isinstance(error, _UNSTORABLE) and _raised_by_driver(error):
        return REASON
    return OURS if isinstance(error, _DEFECTS) else None


def _raised_by_driver(error: Exception) -> bool:
    """Whether the last Python code that ran was the driver's or SQLAlchemy's, not ours."""
    frame, last = error.__traceback__, ""
    while frame is not None:
        last, frame = str(frame.tb_frame.f_globals.get("__name__", "")), frame.tb_next
    return f"{last}.".startswith(_BENEATH)
