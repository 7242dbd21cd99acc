"""Kill -9 the monitor with its own span log, then collectors on a Kafka topic; account for every trace.

Run: `python tests/harness/torture_both.py --kills 20`: as many kills of each. The last line is one JSON object: the
sums of kills, acknowledged, lost and doubled, and the account of each.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import kafka_broker
import kafka_torture
import torture


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        found["embedded"] = torture.torture(options.kills, options.seed, Path(scratch))
    print(json.dumps(found["embedded"]), file=sys.stderr, flush=True)
    if kafka_broker.is_available():
        with tempfile.TemporaryDirectory() as scratch:
            found["kafka"] = kafka_torture.run(options.kills, options.seed, Path(scratch))
    else:
        print("no Kafka on this machine (tests/harness/kafka_broker.py): that half was not run", file=sys.stderr)
    sums = {name: sum(half[name] for half in found.values()) for name in ("kills", "acknowledged", "lost", "doubled")}
    print(json.dumps({**sums, "seed": options.seed, **found}))
    return int(sums["lost"] != 0 or sums["doubled"] != 0)


if __name__ == "__main__":
    sys.exit(main())
