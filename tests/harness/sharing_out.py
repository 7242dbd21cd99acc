"""How `pytest -n` shares the tests out: a file stays whole, and the long ones begin first.

The long ones start programs and wait for them more than they compute. Half of the processes may be at such a file, so
that what one waits for is not late because all wait at once; the others do the many short ones meanwhile.
"""

from __future__ import annotations

import os

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

LONG = (  # longest first
    "tests/e2e/test_torture.py",
    "tests/e2e/test_cluster.py",
    "tests/e2e/test_demo_command.py",
    "tests/deploy/test_quickstarts.py",
    "tests/e2e/test_feedback_attack.py",
    "tests/collector/test_kafka.py",
    "tests/deploy/test_demo_end.py",
    "tests/deploy/test_install.py",
    "tests/e2e/test_outages.py",
    "tests/e2e/test_alert_message.py",
    "tests/e2e/test_kafka_monitor.py",
    "tests/alerts/test_rules.py",
)


def workers() -> int:
    """Of `-n auto`: two for each core, for there is more waiting than computing."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(8, 2 * cores)


def turn(file: str) -> int:
    """To sort files by: the long ones first, the others as they are."""
    return LONG.index(file) if file in LONG else len(LONG)


class HalfAtLongFiles(LoadFileScheduling):  # type: ignore[misc]
    def _assign_work_unit(self, node: WorkerController) -> None:
        short = next((file for file in self.workqueue if file not in LONG), None)
        if short is not None and self._at_long_files() >= max(1, self.numnodes // 2):
            self.workqueue.move_to_end(short, last=False)
        super()._assign_work_unit(node)

    def _at_long_files(self) -> int:
        """Those that have one before them are counted too."""
        return sum(
            any(file in LONG and self._pending_of({file: tests}) for file, tests in files.items())
            for files in self.assigned_work.values()
        )
