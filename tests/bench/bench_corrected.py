"""Bias, coverage and width of the corrected rate, and what reading a part again costs beside reading everything.

python tests/bench/bench_corrected.py --runs 300

With --data judge_dev.jsonl.gz the first judge errs as the shipped local judge does on those rows: each request has
the verdict that it gave on a row drawn from the unfaithful or the faithful ones. One table over all rows, then what
comes of kinds of traffic on which it hardly tells them apart.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import mean, stdev

sys.path.insert(0, str(Path(__file__).parent.parent / "harness"))

from two_phase_traffic import Verdicts, World, measured

from groundwatch_alerts.corrected import Corrected
from groundwatch_scorer.calibration import Row, read_rows
from groundwatch_scorer.local_judge import LocalJudge
from groundwatch_scorer.second_look import Chances

RATES = (0.01, 0.02, 0.05, 0.10, 0.20)
DESIGNS = {
    "everything": Chances(1.0, 1.0),
    "one in five": Chances(0.2, 0.2),
    "0.3 / 0.12": Chances(0.3, 0.12),
    "0.4 / 0.1": Chances(0.4, 0.1),
}


KINDS = (("en",), ("zh",), ("expertqa", "faithbench", "ocnli_zh"), ("healthver", "qags"), ("begin", "rgb_en"))
"""Of labelled rows, by language or source: traffic that is another kind than what was tuned on."""


def line(world: World, runs: int) -> str:
    results = [world.run(seed) for seed in range(runs)]
    kept = [(truth, found) for truth, found in results if isinstance(found, Corrected)]
    refused = f"{100 * (1 - len(kept) / runs):7.1f} %"
    if len(kept) < 2:
        return f"{'-':>14} {'-':>9} {'-':>7} {'-':>7} {'-':>7} {refused}"
    errors = [100 * (found.rate - truth) for truth, found in kept]
    covered = mean(found.low <= truth <= found.high for truth, found in kept)
    half = mean(50 * (found.high - found.low) for _, found in kept)
    labels = mean(found.labels for _, found in kept)
    error = stdev(errors) / len(errors) ** 0.5
    return (
        f"{mean(errors):+7.2f} +-{2 * error:4.2f} {100 * covered:7.1f} % {half:7.2f} {stdev(errors):7.2f} "
        f"{labels:7.0f} {refused}"
    )


def rates(verdicts: Verdicts) -> str:
    def share(failed: bool, said: bool | None) -> float:
        return sum(v is said for v in verdicts[failed]) / len(verdicts[failed])

    raw = share(False, True) / (share(False, True) + share(False, False))
    return (
        f"{len(verdicts[True])} unfaithful and {len(verdicts[False])} faithful rows: "
        f"flagged {share(True, True):.3f} and {share(False, True):.3f}, "
        f"abstained {share(True, None):.3f} and {share(False, None):.3f}; "
        f"without any failure it flags {raw:.1%} of what it decides"
    )


def of_kind(rows: list[Row], kind: tuple[str, ...]) -> list[Row]:
    return [row for row in rows if row.get("lang") in kind or row.get("source") in kind]


def tables(runs: int, data: Path | None) -> None:
    head = f"{'true':>5} {'read again':12} {'bias (pp)':>14} {'covers':>9} {'half pp':>7} {'sd pp':>7} labels refused"
    rows = read_rows(data) if data else []
    verdicts = measured(rows, LocalJudge()) if data else None
    if verdicts:
        print(rates(verdicts))
    print(head)
    for rate in RATES:
        for name, chances in DESIGNS.items():
            print(f"{rate:5.0%} {name:12} {line(World(rate, chances=chances, verdicts=verdicts), runs)}", flush=True)
    for kind in KINDS if data else ():
        verdicts = measured(of_kind(rows, kind), LocalJudge())
        print(f"\n{', '.join(kind)}: {rates(verdicts)}\n{head}")
        for rate in (0.05, 0.20):
            print(f"{rate:5.0%} {'0.3 / 0.12':12} {line(World(rate, verdicts=verdicts), runs)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--data", type=Path, help="labelled rows for the errors of the shipped local judge")
    arguments = parser.parse_args()
    tables(arguments.runs, arguments.data)


if __name__ == "__main__":
    main()
