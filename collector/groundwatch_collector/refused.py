"""What to do when the database refuses a transaction for what is in it, instead of being away for a while.

Trying the same again for ever would stop every trace behind it. Such a transaction is parted until the rows are found
that cannot be stored; they are written down as lost, with the reason, and the rest goes on.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, StatementError

REASON: Final = "refused_by_database"
TRIES: Final = 3  # a race for the same row is over by then


def is_refusal(error: Exception) -> bool:
    """Whether the same rows will be refused again. A missing table or a full disk is not about the rows."""
    if isinstance(error, DBAPIError):
        return isinstance(error, (DataError, IntegrityError)) and not error.connection_invalidated
    # Drivers raise their own for numbers and texts that no column can hold, before the database has seen them.
    return isinstance(error, (StatementError, ValueError, TypeError, ArithmeticError, LookupError))
