"""Addresses of machines. Private, loopback and mask addresses say nothing about a person and stay."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from groundwatch_review.redaction.rules import Rule, by_rules
from groundwatch_review.redaction.views import View

_INTERNAL: Final = tuple(
    ipaddress.ip_network(net)
    for net in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "224.0.0.0/3",
    )
)
_PUBLIC_SERVICES: Final = frozenset(
    {"8.8.8.8", "8.8.4.4", "1.1.1.1", "1.0.0.1", "9.9.9.9", "114.114.114.114", "223.5.5.5"}
)


def _host(match: re.Match[str], view: View) -> bool:
    try:
        address = ipaddress.IPv4Address(re.sub(r"(?<![0-9])0+(?=[0-9])", "", match.group()))
    except ValueError:
        return False
    internal = any(address in net for net in _INTERNAL) or match.group().endswith(".0.0.0")
    return not internal and str(address) not in _PUBLIC_SERVICES and not _version_before(match, view)


def _version_before(match: re.Match[str], view: View) -> bool:
    return bool(_VERSION.search(view.folded[max(0, match.start() - 12) : match.start()]))


_VERSION: Final = re.compile(r"(?i:version|ver\.?|release|firmware|build|版本|固件|(?<![a-z])v)\s?$")


def _six(match: re.Match[str], _view: View) -> bool:
    """At least three groups: ``1::2`` is a slice and ``a::b`` a name in program text."""
    groups = [group for group in re.split(r":+", match.group()) if group]
    try:
        ipaddress.IPv6Address(match.group())
    except ValueError:
        return False
    return len(groups) >= 3


def _device(match: re.Match[str], _view: View) -> bool:
    return len(set(re.sub(r"[^0-9A-Fa-f]", "", match.group()).lower())) > 1


NETWORK: Final = by_rules(
    "network",
    "1",
    (
        Rule(
            "IP",
            re.compile(r"(?:(?<![0-9A-Za-z.])|(?<=IP)|(?<=ip))(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z]|\.[0-9])"),
            accepts=_host,
        ),
        Rule(
            "IP",
            re.compile(r"(?<![0-9A-Za-z:.])(?:[0-9A-Fa-f]{1,4}:{1,2}){2,7}[0-9A-Fa-f]{0,4}(?![0-9A-Za-z:])"),
            needs=(":",),
            accepts=_six,
        ),
        Rule(
            "MAC",
            re.compile(
                r"(?<![0-9A-Za-z:\-])[0-9A-Fa-f]{2}([:\-])(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}(?![0-9A-Za-z:\-])"
            ),
            accepts=_device,
        ),
        Rule(
            "MAC",
            re.compile(
                r"(?<![0-9A-Za-z.])[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}(?![0-9A-Za-z]|\.[0-9A-Fa-f])"
            ),
            accepts=_device,
        ),
    ),
)
