"""The estimate of ``estimator.py`` as Prometheus recording rules: per app, criterion and judge, over one window.

``docs/concepts/estimate.md`` explains the formula. Names carry the window as their last part, ``rag:fail_ratio:6h``;
those of the settled family begin with ``rag_settled:``.
"""

from __future__ import annotations

from groundwatch_alerts.estimator import Z95
from groundwatch_alerts.rule_files import Group, Recording
from groundwatch_alerts.tallies import Family

WHOLE = "app, criterion, judge"
PARTS = f"{WHOLE}, stratum"
_Z = f"{Z95}"


def estimate_group(window: str, family: Family = "fast") -> Group:
    """Rules for one window and family. They add up the counters of all instances and versions first."""
    counters = "rag" if family == "fast" else f"rag_{family}"
    prefix = "rag" if family == "fast" else "rag_settled"
    rules = [*_sums(counters, window), *_strata(), *_whole(), *_bounds()]
    return Group(
        f"groundwatch-{counters.replace('_', '-')}-{window}",
        [Recording(_name(rule.record, prefix, window), _name(rule.expr, prefix, window)) for rule in rules],
    )


def _name(text: str, prefix: str, window: str) -> str:
    """Rules are written with ``@word`` for a recorded series of this window and family."""
    parts = text.split("@")
    return parts[0] + "".join(f"{prefix}:{_before(part, window)}" for part in parts[1:])


def _before(part: str, window: str) -> str:
    word = part[: len(part) - len(part.lstrip("abcdefghijklmnopqrstuvwxyz_0123456789"))]
    return f"{word}:{window}{part[len(word) :]}"


def _sums(counters: str, window: str) -> list[Recording]:
    def total(by: str, counter: str) -> str:
        return f"sum by ({by}) (increase({counters}_{counter}_total[{window}]))"

    return [
        # A, B, C of the judged, what did not apply or had no verdict, and all eligible traffic.
        Recording("@a", total(PARTS, "judged_weight")),
        Recording("@b", total(PARTS, "judged_fail_weight")),
        Recording("@c", total(PARTS, "judged_weight_sq")),
        Recording("@na", total(PARTS, "judge_not_applicable_weight")),
        Recording("@missing", total(PARTS, "judge_missing_weight")),
        Recording("@eligible", total("app, criterion, stratum", "eligible_traces")),
        Recording("@judged", total(WHOLE, "judged")),
    ]


def _strata() -> list[Recording]:
    pooled = f"(sum by ({WHOLE}) (@b) / (sum by ({WHOLE}) (@a) > 0))"
    unjudged = f"or on ({PARTS})\n0 * @n"
    return [
        # Traffic to which the criterion applies, and each stratum's share of it.
        Recording("@applicable", "@a / ((@a + @na) > 0) or 0 * @a + 1"),
        Recording("@n", "@applicable * on (app, criterion, stratum) group_left () @eligible"),
        Recording("@share", f"@n / on ({WHOLE}) group_left () (sum by ({WHOLE}) (@n) > 0)"),
        # Rate, effective judged count and unseen share; a stratum without verdicts is wide, not absent.
        Recording("@p", f"@b / (@a > 0)\n{unjudged} + on ({WHOLE}) group_left () {pooled}"),
        Recording("@m", f"@a ^ 2 / (@c > 0)\n{unjudged} + 1"),
        Recording("@phi", f"clamp_min(1 - @a / (@c > 0) * clamp_max(@a / @n, 1), 0)\n{unjudged} + 1"),
        Recording("@ps", "(@p * @m + 1) / (@m + 2)"),
    ]


def _whole() -> list[Recording]:
    return [
        Recording("@fail_ratio", f"sum by ({WHOLE}) (@share * @p)"),
        # What it costs that the share of a stratum is itself estimated, where a criterion does not always apply.
        Recording(
            "@domain",
            f"@share ^ 2 * @phi * (1 - @applicable)\n* (@p - on ({WHOLE}) group_left () @fail_ratio) ^ 2 / @m",
        ),
        Recording("@v", "@share ^ 2 * @phi * @ps * (1 - @ps) / @m + @domain"),
        Recording("@pbar", f"sum by ({WHOLE}) (@share * @ps)"),
        Recording("@neff", f"@pbar * (1 - @pbar) / sum by ({WHOLE}) (@v)"),
        # How much of the traffic lies in strata with a verdict, and how much of the sample has none.
        Recording("@judged_share", f"sum by ({WHOLE}) (@share and on ({PARTS}) @a > 0)"),
        Recording(
            "@missing_share",
            f"sum by ({WHOLE}) (@missing) / (sum by ({WHOLE}) (@a + @na + @missing) > 0)",
        ),
    ]


def _bounds() -> list[Recording]:
    limits = f"sum by ({WHOLE}) (\n@share ^ 2 * (@u - @p) ^ 2 + {_Z} ^ 2 * @domain)"
    return [
        Recording("@fail_ratio_lcb95", wilson("@fail_ratio", "@neff", "-")),
        Recording("@fail_ratio_ucb95", wilson("@fail_ratio", "@neff", "+")),
        # The safe upper bound: Wilson's limit of each stratum, added in squares.
        Recording("@mf", "@m / @phi"),
        Recording("@u", wilson("@p", "@mf", "+")),
        Recording("@fail_ratio_ucb95_safe", f"clamp_max(@fail_ratio + sqrt({limits}), 1)"),
    ]


def wilson(rate: str, n: str, sign: str) -> str:
    """Wilson's bound of *rate* in *n* trials: the lower one with *sign* ``-``, the upper with ``+``."""
    root = f"sqrt({rate} * (1 - {rate}) / {n} + {_Z} ^ 2 / 4 / {n} ^ 2)"
    return f"({rate} + {_Z} ^ 2 / 2 / {n}\n {sign} {_Z} * {root})\n/ (1 + {_Z} ^ 2 / {n})"
