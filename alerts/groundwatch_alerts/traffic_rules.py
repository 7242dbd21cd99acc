"""Recording rules of complete counts: execution failures, refusals, empty results, mix of traffic, cost."""

from __future__ import annotations

from collections.abc import Mapping

from groundwatch_alerts.estimate_rules import wilson
from groundwatch_alerts.objectives import EXECUTION
from groundwatch_alerts.rule_files import Group, Recording

BURN_WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d")
"""Short and long windows of the burn rate, as in Google's SRE workbook."""
USUAL = "7d"
"""What a share is compared with: the week before, the same window included."""
SHARES: Mapping[str, tuple[str, str]] = {"refusal": ("refused", "6h"), "no_result": ("no_result", "1h")}
"""Outcomes whose share of the requests is watched, with the window."""


def traffic_groups() -> list[Group]:
    """Rules that need no objective. A cancelled request is in none of these shares: its user went away."""
    return [
        Group("groundwatch-execution", [rule for window in BURN_WINDOWS for rule in _execution(window)]),
        Group("groundwatch-shares", [*_shares(), *_mix()], interval="5m"),
        Group("groundwatch-faults", _faults()),
    ]


def requests(window: str, condition: str) -> str:
    """Requests of each app in *window* whose outcome meets *condition*."""
    return f"sum by (app) (increase(rag_requests_total{{{condition}}}[{window}]))"


def _execution(window: str) -> list[Recording]:
    """The share of failed executions, and its lower 95 % bound: a few requests wake nobody."""
    whole = f"rag:requests:{window}"
    rules = [Recording(whole, requests(window, 'outcome!="cancelled"'))]
    for criterion, outcomes in EXECUTION.items():
        failed = requests(window, f'outcome=~"{"|".join(outcomes)}"')
        ratio = f"rag:{criterion}_fail_ratio:{window}"
        rules.append(Recording(ratio, f"({failed} or 0 * {whole}) / ({whole} > 0)"))
        rules.append(Recording(f"rag:{criterion}_fail_ratio_lcb95:{window}", wilson(ratio, whole, "-")))
    return rules


def _shares() -> list[Recording]:
    rules = []
    for name, (outcome, window) in SHARES.items():
        for length in (window, USUAL):
            whole = requests(length, 'outcome!="cancelled"')
            chosen = requests(length, f'outcome="{outcome}"')
            rules.append(Recording(f"rag:{name}_requests:{length}", whole))
            rules.append(
                Recording(
                    f"rag:{name}_share:{length}", f"({chosen} or 0 * {whole}) / (rag:{name}_requests:{length} > 0)"
                )
            )
        rules.append(Recording(f"rag:{name}_share_z:{window}", _two_shares(name, window)))
    return rules


def _two_shares(name: str, window: str) -> str:
    """How many standard errors the share of *window* lies above the usual one; half a request is added to that."""
    now, usual = f"rag:{name}_share:{window}", f"rag:{name}_share:{USUAL}"
    smooth = f"({usual} * rag:{name}_requests:{USUAL} + 0.5) / (rag:{name}_requests:{USUAL} + 1)"
    return (
        f"({now} - {usual})\n/ sqrt({smooth} * (1 - {smooth})"
        f"\n* (1 / rag:{name}_requests:{window} + 1 / rag:{name}_requests:{USUAL}))"
    )


def _mix() -> list[Recording]:
    def share(window: str) -> Recording:
        total = f"sum by (app, stratum) (increase(rag_traces_total[{window}]))"
        whole = f"sum by (app) (increase(rag_traces_total[{window}]))"
        return Recording(f"rag:mix_share:{window}", f"{total} / on (app) group_left () ({whole} > 0)")

    return [
        share("6h"),
        share(USUAL),
        Recording("rag:mix_requests:6h", "sum by (app) (increase(rag_traces_total[6h]))"),
        # Total variation distance: the least share of requests that must change their stratum.
        Recording("rag:mix_shift:6h", f"sum by (app) (abs(rag:mix_share:6h - rag:mix_share:{USUAL})) / 2"),
    ]


def _faults() -> list[Recording]:
    weights = "sum by (app, judge, %s) (increase(rag_fault_weight_total[6h]))"
    return [
        Recording("rag:fault_weight:6h", weights % "layer"),
        Recording("rag:fault_version_weight:6h", weights % "version"),
    ]
