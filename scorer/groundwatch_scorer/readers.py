"""Read several traces at once: a judge that asks a model mostly waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar

A = TypeVar("A")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Later(Generic[T]):
    """Work that begins when its result is asked for: what one thread does instead of a future."""

    result: Callable[[], T]


@contextmanager
def readers(count: int, work: Callable[[A], T]) -> Iterator[Callable[[A], Future[T] | Later[T]]]:
    """Give a function that starts *work* on one of *count* threads, or in the caller's own where *count* is 1.

    What has not begun when the block ends is cancelled. The threads are daemons, unlike those of
    ``ThreadPoolExecutor``: an endpoint that hangs must not keep a process alive that was told to stop.
    """
    if count == 1:
        yield lambda item: Later(partial(work, item))
        return
    jobs: SimpleQueue[tuple[Future[T], A] | None] = SimpleQueue()
    started: list[Future[T]] = []

    def start(item: A) -> Future[T]:
        future: Future[T] = Future()
        started.append(future)
        jobs.put((future, item))
        return future

    for number in range(count):
        threading.Thread(target=_work, args=(jobs, work), name=f"groundwatch-reader-{number}", daemon=True).start()
    try:
        yield start
    finally:
        for future in started:
            future.cancel()
        for _ in range(count):
            jobs.put(None)


def _work(jobs: SimpleQueue[tuple[Future[T], A] | None], work: Callable[[A], T]) -> None:
    while (job := jobs.get()) is not None:
        future, item = job
        if not future.set_running_or_notify_cancel():
            continue
        try:
            future.set_result(work(item))
        except BaseException as error:  # it belongs to whoever asks for the result
            future.set_exception(error)
