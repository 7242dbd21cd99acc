"""Ask the application every question of the set, and keep each try."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from groundwatch_review.gate.items import Item
from groundwatch_review.gate.replies import BadReply, Reply, read_reply
from groundwatch_review.gate.scores import Scorer
from groundwatch_review.gate.targets import NotAsked, Request, Target

_Input = TypeVar("_Input")
_Output = TypeVar("_Output")


@dataclass(frozen=True, slots=True)
class AskPolicy:
    """How patiently to ask. A question is tried ``1 + retries`` times; a timeout is tried again like any failure."""

    timeout_seconds: float = 60.0
    retries: int = 1
    parallel: int = 4


@dataclass(frozen=True, slots=True)
class Try:
    """``outcome``: ok, or the reason of :class:`NotAsked`. ``note`` never holds text of the application."""

    outcome: str
    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class ItemResult:
    """``scores`` is empty when no try gave a reply: the item counts as a failed execution, and in no score."""

    item_id: str
    family: str
    tries: tuple[Try, ...]
    scores: Mapping[str, float | None] = field(default_factory=dict)
    answer: str = ""
    digest: str = ""  # of the item; "" in a baseline of a version that wrote none

    @property
    def executed(self) -> bool:
        return self.tries[-1].outcome == "ok"


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one target under one policy."""

    target: Target
    policy: AskPolicy
    clock: Callable[[], float] = time.monotonic

    def ask(self, request: Request) -> tuple[tuple[Try, ...], Reply | None]:
        """Every try, and the reply of the last if it gave one."""
        tries: list[Try] = []
        for _ in range(1 + self.policy.retries):
            started = self.clock()
            try:
                reply = read_reply(self.target.ask(request, self.policy.timeout_seconds))
            except NotAsked as error:
                tries.append(Try(error.reason, self.clock() - started, str(error)))
            except BadReply as error:
                tries.append(Try("bad_reply", self.clock() - started, str(error)))
            else:
                return (*tries, Try("ok", self.clock() - started)), reply
        return tuple(tries), None


def unheard(done: int, total: int) -> None:
    """Progress that nobody waits for."""


def run(
    items: Sequence[Item], asker: Asker, scorer: Scorer, told: Callable[[int, int], None] = unheard
) -> list[ItemResult]:
    """Ask and score *items*; the results come in their order. *told* hears (done, total) after each."""

    def one(item: Item) -> ItemResult:
        tries, reply = asker.ask(request(item))
        if reply is None:
            return ItemResult(item.id, item.family, tries, digest=item.digest)
        return ItemResult(item.id, item.family, tries, scorer.score(item, reply), reply.answer, item.digest)

    return in_parallel(one, items, asker.policy.parallel, told)


def in_parallel(
    work: Callable[[_Input], _Output],
    inputs: Sequence[_Input],
    threads: int,
    told: Callable[[int, int], None] = unheard,
) -> list[_Output]:
    """Map *work* over *inputs* with a bounded number of threads, in order."""
    results: list[_Output] = []
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="gate") as pool:
        for result in pool.map(work, inputs):
            results.append(result)
            told(len(results), len(inputs))
    return results


def request(item: Item, extra: Iterable[str] = ()) -> Request:
    """What a target is given for *item*."""
    asked: dict[str, object] = {
        "item_id": item.id,
        "question": item.question,
        "history": [{"role": role, "text": text} for role, text in item.history],
    }
    documents = list(extra)
    return {**asked, "extra_documents": documents} if documents else asked
