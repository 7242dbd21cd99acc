"""Bias, coverage and width of the corrected rate, and what reading a part again costs beside reading everything.

python tests/bench/bench_corrected.py --runs 300
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import mean, stdev

sys.path.insert(0, str(Path(__file__).parent.parent / "harness"))

from two_phase_traffic import World

from groundwatch_alerts.corrected import Corrected
from groundwatch_scorer.second_look import Chances

RATES = (0.01, 0.02, 0.05, 0.10, 0.20)
DESIGNS = {
    "everything": Chances(1.0, 1.0),
    "one in five": Chances(0.2, 0.2),
    "0.3 / 0.12": Chances(0.3, 0.12),
    "0.4 / 0.1": Chances(0.4, 0.1),
}


def line(world: World, runs: int) -> str:
    results = [world.run(seed) for seed in range(runs)]
    kept = [(truth, found) for truth, found in results if isinstance(found, Corrected)]
    errors = [100 * (found.rate - truth) for truth, found in kept]
    covered = mean(found.low <= truth <= found.high for truth, found in kept)
    half = mean(50 * (found.high - found.low) for _, found in kept)
    labels = mean(found.labels for _, found in kept)
    error = stdev(errors) / len(errors) ** 0.5
    return (
        f"{mean(errors):+7.2f} +-{2 * error:4.2f} {100 * covered:7.1f} % {half:7.2f} {stdev(errors):7.2f} "
        f"{labels:7.0f} {100 * (1 - len(kept) / runs):7.1f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    runs = parser.parse_args().runs
    print(f"{'true':>5} {'read again':12} {'bias (pp)':>14} {'covers':>9} {'half pp':>7} {'sd pp':>7} labels refused")
    for rate in RATES:
        for name, chances in DESIGNS.items():
            print(f"{rate:5.0%} {name:12} {line(World(rate, chances=chances), runs)}", flush=True)


if __name__ == "__main__":
    main()
