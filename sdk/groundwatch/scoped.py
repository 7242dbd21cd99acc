"""A thing that lasts as long as a ``with`` or ``async with`` block."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Scoped:
    """Gives both kinds of block to a class that says what it does at their begin and end."""

    __slots__ = ()

    def _enter(self) -> None:
        raise NotImplementedError

    def _exit(self, error: BaseException | None) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit(error)

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit(error)
