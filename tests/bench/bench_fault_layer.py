"""How often the layer that is named is the stage that was broken. Run: ``python tests/bench/bench_fault_layer.py``.

The traces are written by ``tests/harness/broken_stages.py``, which knows nothing of the finder.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from broken_stages import cases

from groundwatch_scorer import fault
from groundwatch_scorer.local_judge import LocalJudge


def measure(seen: bool) -> dict[tuple[str, str], Counter[str]]:
    """(language, broken stage) -> how often each layer was named; "none" where no failure was found."""
    judge = LocalJudge()
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for case in cases():
        if case.seen is not seen:
            continue
        finding = fault.find(case.trace, judge.assess(case.trace))
        found[case.language, case.layer]["none" if finding is None else finding.layer.value] += 1
    return found


def main() -> None:
    for seen in (True, False):
        found = measure(seen)
        for (language, layer), named in found.items():
            report = {
                "seen": seen,
                "language": language,
                "broken": layer,
                "right": named[layer],
                "named": dict(named),
            }
            print(json.dumps(report))
        right = sum(named[layer] for (_language, layer), named in found.items())
        print(json.dumps({"seen": seen, "traces": sum(n.total() for n in found.values()), "right": right}))


if __name__ == "__main__":
    main()
