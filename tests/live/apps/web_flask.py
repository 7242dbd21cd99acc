# mypy: ignore-errors
"""A Flask application under gunicorn: configured in the master, asked in the workers. Settings: the environment."""

from __future__ import annotations

import os

from flask import Flask, request

import groundwatch

groundwatch.configure()
with groundwatch.request("warm up", session=f"master {os.getpid()}") as first:
    first.answer("done")  # the master sends too, before it forks
app = Flask(__name__)


@app.get("/ask")
def ask():
    q = request.args["q"]
    with groundwatch.request(q, session=str(os.getpid())) as r:
        r.candidates([{"id": q, "content": q}])
        r.answer(f"about {q}")
    return r.trace_id


@app.get("/fail")
def fail():
    with groundwatch.request(request.args["q"], session=str(os.getpid())):
        raise ValueError("scripted")
