"""Budget, bias and coverage over months of made traffic. Run it: python tests/bench/bench_closed_loop.py --runs 12

Each run is 28 days through the product's hash, planner, shedding and estimator (`tests/harness/closed_loop.py`). The
table goes to standard error, one JSON object to standard output. Windows are days and weeks.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from closed_loop import Loop, Summary, summary

CELLS = ((10_000, 100, False), (10_000, 300, False), (30_000, 300, False), (30_000, 900, False), (30_000, 300, True))
HEAD = (
    "traffic/budget a day        window   judged mean sd max    bias pp (se)     half pp  covered (se)   raw mean pp"
)


def line(name: str, window: str, s: Summary) -> str:
    return (
        f"{name:27} {window:6} {s.budget_mean:8.1f} {s.budget_sd:5.1f} {s.budget_max:5d}   {s.bias_pp:+.3f} "
        f"({s.bias_se_pp:.3f})   {s.half_width_pp:6.2f}   {s.covered:.1%} ({s.covered_se:.1%})   {s.raw_bias_pp:+.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--days", type=int, default=28)
    parser.add_argument("--epoch", type=int, default=300, help="seconds; longer ones are quicker to simulate")
    parser.add_argument("--cells", type=int, nargs="*", default=range(len(CELLS)), help="which rows of CELLS")
    arguments = parser.parse_args()
    print(HEAD, file=sys.stderr)
    found = []
    for traffic, budget, overload in (CELLS[index] for index in arguments.cells):
        started = time.process_time()
        loops = [
            Loop(
                traffic_a_day=traffic,
                judged_a_day=budget,
                seed=seed,
                days=arguments.days,
                epoch=arguments.epoch,
                overload=overload,
            )
            for seed in range(arguments.runs)
        ]
        months = [loop.run() for loop in loops]
        name = f"{traffic}/{budget}{' overload x10' if overload else ''}"
        days = summary([day for month in months for day in month.days])
        weeks = summary([week for month in months for week in month.weeks])
        print(line(name, "day", days), line(name, "week", weeks), sep="\n", file=sys.stderr, flush=True)
        found.append(
            {
                "traffic_a_day": traffic,
                "judged_a_day": budget,
                "overload": overload,
                "shed": sum(loop.shed for loop in loops),
                "days": asdict(days),
                "weeks": asdict(weeks),
                "cpu_seconds": round(time.process_time() - started, 1),
            }
        )
    print(
        json.dumps({"runs": arguments.runs, "days": arguments.days, "epoch_seconds": arguments.epoch, "cells": found})
    )


if __name__ == "__main__":
    main()
