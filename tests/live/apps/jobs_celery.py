# mypy: ignore-errors
"""A Celery application with a broker in a folder. ``python jobs_celery.py N`` sends N tasks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from celery import Celery

import groundwatch

FOLDER = Path(os.environ["JOBS_FOLDER"])
app = Celery("jobs_celery", broker="filesystem://")
queue = {name: str(FOLDER / "queue") for name in ("data_folder_in", "data_folder_out")}
app.conf.broker_transport_options = {**queue, "control_folder": str(FOLDER / "control")}
app.conf.broker_transport_options["polling_interval"] = 0.05
app.conf.worker_prefetch_multiplier = 1
groundwatch.configure()


@app.task
def ask(q):
    with groundwatch.request(q, session=str(os.getpid())) as r:
        r.candidates([{"id": q, "content": q}])
        r.answer(f"about {q}")
    (FOLDER / "done" / q).touch()
    if q.endswith("fails"):
        with groundwatch.request(f"{q} again", session=str(os.getpid())):
            raise ValueError("scripted")


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        ask.delay(f"job {number}" + (" fails" if number % 5 == 4 else ""))
