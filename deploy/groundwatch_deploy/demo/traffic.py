"""Users asking the application questions: its own process, real HTTP to the collector, repeatable by seed.

``python -m groundwatch_deploy.demo.traffic --endpoint http://127.0.0.1:4318 --requests 2000 --truth truth.jsonl``
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

import groundwatch
from groundwatch_deploy.demo import corpus, llm, questions, truth, users
from groundwatch_deploy.demo.app import RagApp, Reply
from groundwatch_deploy.demo.behaviour import INCIDENTS, Behaviour, deployed
from groundwatch_deploy.demo.questions import Bank, Question
from groundwatch_deploy.demo.retrieval import Index
from groundwatch_deploy.demo.serving import serve
from groundwatch_deploy.demo.truth import Truth, TruthFile
from groundwatch_deploy.demo.users import Reaction

SERVICE = "tideline-help"
PROGRESS_EVERY = 100  # requests
MAX_UNDER_WAY = 16
# What the SDK may have waiting: half its queue. On a busy machine its one thread gets less of the processor than the
# answering ones, and a real application that fills the queue loses requests. Here the users wait instead.
ROOM = 1024
FLUSH_SECONDS = 20.0
FRUITLESS_FLUSHES = 3  # in a row: a receiver that is away, not a slow one
PAUSE_SECONDS = 1.0  # after each


@dataclass(frozen=True, slots=True)
class Served:
    """What one run did: the line that it prints."""

    version: str
    requests: int
    completed: int
    failed: int  # truly, by construction
    complaints: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Planned:
    """One request to come. Everything in it follows from the seed."""

    trace_id: str
    question: Question
    session: str
    rng: random.Random


def plan(bank: Bank, version: str, seed: int, requests: int) -> Iterator[Planned]:
    """The requests of a run, in order. The same seed and version give the same requests."""
    for number in range(requests):
        name = f"{seed}:{version}:{number}"
        rng = random.Random(name)  # noqa: S311 (traffic, not secrets)
        digest = blake2b(name.encode(), digest_size=16).hexdigest()
        yield Planned(digest, bank.draw(rng), f"session-{seed}-{number // 3}", rng)


@dataclass(frozen=True, slots=True)
class Handled:
    """One request as it went: what the application did, what truly happened, how the user took it."""

    planned: Planned
    reply: Reply
    truth: Truth
    reaction: Reaction | None


def handle(app: RagApp, planned: Planned, now: Callable[[], float] = time.time) -> Handled:
    """Serve one request under the SDK; say what truly happened and how the user takes it."""
    started_at = now()
    reply = serve(app, planned.question.text, rng=planned.rng, trace_id=planned.trace_id, session=planned.session)
    happened = truth.decide(
        planned.question, reply, trace_id=planned.trace_id, version=app.behaviour.version, started_at=started_at
    )
    return Handled(planned, reply, happened, users.react(happened, planned.rng))


class Complaints:
    """Sends reactions a little later than the answers, as people do, from one thread."""

    def __init__(self) -> None:
        self._queue: queue.PriorityQueue[tuple[float, int, str, Reaction | None]] = queue.PriorityQueue()
        self._thread = threading.Thread(target=self._run, name="demo-feedback")
        self._thread.start()
        self._count = 0

    def later(self, trace_id: str, reaction: Reaction) -> None:
        self._count += 1
        self._queue.put((time.monotonic() + reaction.delay_seconds, self._count, trace_id, reaction))

    def close(self) -> None:
        """Send what is left and stop."""
        self._queue.put((float("inf"), 0, "", None))
        self._thread.join()

    def _run(self) -> None:
        while True:
            due, _count, trace_id, reaction = self._queue.get()
            if reaction is None:
                return
            time.sleep(max(0.0, due - time.monotonic()))
            groundwatch.feedback(
                trace_id,
                label="up" if reaction.sentiment == "positive" else "down",
                comment=reaction.comment or None,
                id=f"thumbs-{trace_id}",  # one per answer: pressing twice is one complaint
            )


def run(
    app: RagApp, bank: Bank, *, seed: int, requests: int, per_second: float, workers: int, out: TruthFile
) -> Served:
    """Serve *requests* at *per_second* with *workers* at once; progress goes to standard error."""
    begun = time.monotonic()
    complaints = Complaints()
    done: list[Handled] = []
    plans = plan(bank, app.behaviour.version, seed, requests)
    with ThreadPoolExecutor(workers) as pool:
        for handled in _paced(app, plans, pool, per_second):
            done.append(handled)
            out.add(handled.truth)
            if handled.reaction is not None:
                complaints.later(handled.planned.trace_id, handled.reaction)
            if len(done) % PROGRESS_EVERY == 0 or len(done) == requests:
                print(f"{app.behaviour.version}: {len(done)} of {requests} requests", file=sys.stderr, flush=True)
    complaints.close()
    return _served(app.behaviour.version, done, time.monotonic() - begun)


def _served(version: str, done: Sequence[Handled], seconds: float) -> Served:
    failed, completed = truth.failure_rate(handled.truth for handled in done)
    negative = sum(h.reaction is not None and h.reaction.sentiment == "negative" for h in done)
    return Served(version, len(done), completed, failed, negative, round(seconds, 2))


def _paced(app: RagApp, plans: Iterator[Planned], pool: ThreadPoolExecutor, per_second: float) -> Iterator[Handled]:
    """Start requests at their time and give them back in order, a bounded number under way."""
    begun = time.monotonic()
    under_way: deque[Future[Handled]] = deque()
    for number, planned in enumerate(plans):
        time.sleep(max(0.0, begun + number / per_second - time.monotonic()))
        if groundwatch.stats().pending > ROOM:
            groundwatch.flush(FLUSH_SECONDS)
        under_way.append(pool.submit(handle, app, planned))
        while under_way and (len(under_way) > MAX_UNDER_WAY or under_way[0].done()):
            yield under_way.popleft().result()
    for future in under_way:
        yield future.result()


def finish() -> str:
    """Send what still waits, as long as any of it gets through; say what did not. "" when all of it did."""
    fruitless = 0
    while fruitless < FRUITLESS_FLUSHES and (flushed := groundwatch.flush(FLUSH_SECONDS)).pending:
        fruitless = 0 if flushed.sent else fruitless + 1
        if not flushed.sent:
            time.sleep(PAUSE_SECONDS)
    stats = groundwatch.stats()
    groundwatch.shutdown(0.1)
    lost = {"requests": stats.pending, "feedback": stats.feedback_pending}
    reasons = {f"{what}, no answer": count for what, count in lost.items()}
    reasons |= {f"requests, {reason}": count for reason, count in stats.dropped.items()}
    reasons |= {f"feedback, {reason}": count for reason, count in stats.feedback_dropped.items()}
    return "; ".join(f"{count} {what}" for what, count in reasons.items() if count)


def _generator(index: Index, behaviour: Behaviour) -> llm.LlmGenerator:
    found = llm.client_from()
    if found is None:
        raise SystemExit("--llm needs OPENAI_BASE_URL or OPENAI_API_KEY in the environment (and OPENAI_MODEL)")
    client, model = found
    return llm.LlmGenerator(client, model, behaviour)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m groundwatch_deploy.demo.traffic", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--endpoint", required=True, help="where Groundwatch listens, like http://127.0.0.1:4318")
    parser.add_argument("--truth", required=True, type=Path, metavar="FILE", help="what really happened, JSON lines")
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--per-second", type=float, default=100.0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--incident", choices=INCIDENTS, help="serve the version with this fault in it")
    parser.add_argument(
        "--llm", action="store_true", help="let a model write the answers: OPENAI_BASE_URL, ..._API_KEY"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the traffic; print one JSON line about it on standard output. 1: not all of it could be sent."""
    given = _parser().parse_args(arguments)
    behaviour = deployed(given.incident)
    passages = corpus.load()
    index = Index(passages)
    app = RagApp(behaviour, index, _generator(index, behaviour) if given.llm else None)
    groundwatch.configure(
        service=SERVICE,
        version=behaviour.version,
        endpoint=given.endpoint,
        capture_content="text",
        export_timeout_seconds=10.0,  # a monitor on the same busy machine is slow to answer, not away
    )
    out = TruthFile(given.truth)
    try:
        served = run(
            app,
            questions.load(passages),
            seed=given.seed,
            requests=given.requests,
            per_second=given.per_second,
            workers=given.workers,
            out=out,
        )
        unsent = finish()
    finally:
        out.close()
        groundwatch.shutdown(0.1)
    print(json.dumps(asdict(served)))
    if unsent:
        print(f"what the application could not send: {unsent}", file=sys.stderr, flush=True)
    return 1 if unsent else 0


if __name__ == "__main__":
    sys.exit(main())
