"""The tools that exports are made for, in a virtual environment of their own: heavy, and no business of ours.

`python tests/harness/export_tools.py fetch` makes it once, in GROUNDWATCH_EXPORT_TOOLS or
~/.cache/groundwatch-export-tools; about 700 MB and two minutes. `... load FORMAT FILE`, run by the Python in there,
reads an export with the real tool and prints what the tool then holds: a JSON list of questions and contexts.
"""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

PINNED = (
    "langfuse==5.0.4",
    "langsmith==0.15.1",
    "deepeval==4.3.1",
    "arize-phoenix-client==3.5.0",
    "ragas==0.4.3",
    "langchain-community==0.3.31",  # ragas imports a module that newer ones do not have
)


def home() -> Path:
    return Path(os.environ.get("GROUNDWATCH_EXPORT_TOOLS") or Path.home() / ".cache" / "groundwatch-export-tools")


def python() -> Path | None:
    """The interpreter of a finished environment with these very versions."""
    done = home() / "versions"
    return home() / "bin" / "python" if done.exists() and done.read_text() == "\n".join(PINNED) else None


def fetch() -> None:
    if python() is not None:
        return
    venv.create(home(), with_pip=True, clear=True)
    subprocess.run([home() / "bin" / "python", "-m", "pip", "install", "-q", *PINNED], check=True)
    (home() / "versions").write_text("\n".join(PINNED))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().split("\n") if line]


class _Recorder(http.server.BaseHTTPRequestHandler):
    """Answers a new dataset item as Langfuse does, with what came in."""

    bodies: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.bodies.append(body)
        times = {"createdAt": "2025-01-01T00:00:00Z", "updatedAt": "2025-01-01T00:00:00Z"}
        answer = json.dumps(
            {
                "input": None,
                "expectedOutput": None,
                "metadata": None,
                **body,
                **times,
                "datasetId": "d",
                "mediaReferences": [],
            }
        ).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: stdout is the result."""


def _langfuse(path: Path) -> list[Any]:
    """Sent by the real client, over real HTTP, to a server of ours."""
    from langfuse.api import LangfuseAPI

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Recorder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = LangfuseAPI(base_url=f"http://127.0.0.1:{server.server_port}", username="pk", password="sk")
        items = [client.dataset_items.create(**row) for row in _lines(path)]
        server.shutdown()
    assert not any("sourceTraceId" in body or "sourceObservationId" in body for body in _Recorder.bodies)
    return [[item.input["question"], item.metadata["contexts"]] for item in items]


def _ragas(path: Path) -> list[Any]:
    from ragas import EvaluationDataset

    return [[sample.user_input, sample.retrieved_contexts] for sample in EvaluationDataset.from_jsonl(path)]


def _deepeval(path: Path) -> list[Any]:
    from deepeval.dataset import EvaluationDataset

    dataset = EvaluationDataset()
    dataset.add_goldens_from_json_file(str(path))
    assert not any(golden.multimodal for golden in dataset.goldens)
    return [[golden.input, golden.retrieval_context] for golden in dataset.goldens]


def _langsmith(path: Path) -> list[Any]:
    from langsmith.schemas import ExampleCreate

    examples = [ExampleCreate.model_validate(row) for row in _lines(path)]
    assert not any(example.source_run_id for example in examples)
    return [[example.inputs["question"], example.inputs["contexts"]] for example in examples]


def _openai(path: Path) -> list[Any]:
    from openai.types.evals.create_eval_completions_run_data_source import SourceFileContent

    source = SourceFileContent.model_validate({"type": "file_content", "content": _lines(path)})
    return [[row["item"]["input"][0]["content"], row["item"]["contexts"]] for row in source.model_dump()["content"]]


def _phoenix(path: Path) -> list[Any]:
    """What the client checks before it sends; sending needs a server."""
    from phoenix.client.resources.datasets import _is_iterable_of_input_dataset_examples

    rows = _lines(path)
    assert _is_iterable_of_input_dataset_examples(rows)
    return [[row["input"]["question"], row["input"]["contexts"]] for row in rows]


LOADERS: dict[str, Callable[[Path], list[Any]]] = {
    "langfuse": _langfuse,
    "ragas": _ragas,
    "deepeval": _deepeval,
    "langsmith": _langsmith,
    "openai-evals": _openai,
    "phoenix": _phoenix,
}


if __name__ == "__main__":
    if sys.argv[1] == "fetch":
        fetch()
    else:
        print(json.dumps(LOADERS[sys.argv[2]](Path(sys.argv[3]))))
