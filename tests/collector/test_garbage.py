"""Garbage is looked for less often, and still found."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from groundwatch_collector import garbage


class Ring:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def seldom() -> Iterator[None]:
    before = gc.get_threshold()
    garbage.look_less_often()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("seldom")
def test_cycles_are_found_after_at_most_so_many_new_objects():
    lost = weakref.ref(Ring())
    kept: list[list[None]] = []
    for _ in range(garbage.YOUNG // 2):
        kept.append([])
    assert lost() is not None
    for _ in range(garbage.YOUNG):
        kept.append([])
    assert lost() is None
