"""Choose traces by a keyed hash of their id, so that every replica, retry and replay chooses the same ones."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from groundwatch_collector.strata import STRATA, Cuts

BITS = 56
SPACE = 1 << BITS
MAX_SALT_BYTES = 64  # blake2b's longest key


def u56(trace_id: str, salt: bytes) -> int:
    """The trace's permanent random number, 0 <= u < 2**56.

    Salted, because upstream samplers cut on the id's own bits: what arrives here is not uniform in them.
    """
    return int.from_bytes(blake2b(trace_id.encode(), digest_size=8, key=salt).digest(), "big") >> 8


def threshold(probability: float) -> int:
    """The integer below which a permanent random number is included: at least 1, and 2**56 for certainty.

    Scaling a float by a power of two is exact, so the threshold is the probability to the last bit.
    """
    if not 0.0 < probability <= 1.0:
        raise ValueError(f"inclusion probability: found {probability!r}, accepted: above 0 and up to 1")
    return math.ceil(probability * SPACE)


def included(number: int, probability: float) -> bool:
    return number < threshold(probability)


@dataclass(frozen=True, slots=True)
class RateTable:
    """Inclusion probability of every stratum, fixed for one epoch. A stratum without a rate would never be judged."""

    epoch: str
    rates: Mapping[str, float]  # stratum -> probability in (0, 1]
    salt_version: int
    strata: tuple[str, ...] = STRATA  # and those of the user's rules

    def __post_init__(self) -> None:
        for name in self.rates:
            if name not in self.strata:
                near = _nearest(name, self.strata)
                raise ValueError(f"rates: unknown stratum {name!r}{near}; accepted: {', '.join(self.strata)}")
        missing = [name for name in self.strata if name not in self.rates]
        if missing:
            raise ValueError(f"rates: no rate for {', '.join(missing)}; every stratum needs one above 0")
        for name, rate in self.rates.items():
            if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0.0 < rate <= 1.0:
                raise ValueError(f"rates.{name}: found {rate!r}, accepted: above 0 and up to 1")

    def probability(self, stratum: str) -> float:
        return self.rates[stratum]


def _nearest(name: str, strata: Sequence[str]) -> str:
    found = difflib.get_close_matches(str(name), strata, n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def fixed_table(
    rates: Mapping[str, float],
    salt_version: int,
    cuts: Cuts,
    *,
    strata: tuple[str, ...] = STRATA,
    rules: tuple[str, ...] = (),
) -> RateTable:
    """A rate table named after what is in it: the same configuration is the same epoch after a restart.

    *strata*: all that need a rate, in their order; *rules*: the lines that made those which are not built in.
    """
    ordered = {
        name: rates[name] for name in (*(s for s in strata if s in rates), *(s for s in rates if s not in strata))
    }
    content = (ordered, salt_version, cuts, rules) if rules else (ordered, salt_version, cuts)
    digest = blake2b(repr(content).encode(), digest_size=4).hexdigest()
    return RateTable(f"fixed-{digest}-cuts-{cuts.version}", ordered, salt_version, strata)


def check_salt(salt: bytes) -> bytes:
    """Return *salt* unchanged; raise ``ValueError`` where it cannot key the hash."""
    if not 1 <= len(salt) <= MAX_SALT_BYTES:
        raise ValueError(f"salt: found {len(salt)} bytes, accepted: 1 to {MAX_SALT_BYTES}")
    return salt


def adjusted_count(trace_state: str) -> float | None:
    """How many requests this trace stands for after upstream head sampling; None when the state is not readable.

    OpenTelemetry writes ``ot=th:<hex>``, the threshold below which traces were rejected, trailing zeros left out.
    A trace state without it means that nothing was cut: 1.
    """
    value = _vendor_value(trace_state, "ot")
    threshold_digits = _sub_value(value, "th")
    if threshold_digits is None:
        return 1.0
    if not 1 <= len(threshold_digits) <= 14:
        return None
    try:
        rejected = int(threshold_digits.ljust(14, "0"), 16)
    except ValueError:
        return None
    return SPACE / (SPACE - rejected)


def _vendor_value(trace_state: str, vendor: str) -> str:
    members = (member.strip().partition("=") for member in trace_state.split(","))
    return next((value for key, _, value in members if key == vendor), "")


def _sub_value(value: str, name: str) -> str | None:
    fields = (field.partition(":") for field in value.split(";"))
    return next((found for key, _, found in fields if key == name), None)
